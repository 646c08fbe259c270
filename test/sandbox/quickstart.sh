#!/usr/bin/env bash
# SPDX-FileCopyrightText: The CAPT Authors
# SPDX-License-Identifier: Apache-2.0

# Creates a cluster in the sandbox of .sandbox, which is started if it is not running, with the commands that users have. With the
# argument "down", destroys everything through Terraform and removes the sandbox, which is kept if something is left: it has the Terraform state.
set -euo pipefail

show() { printf '\n$ %s\n' "$*"; "$@"; }

if [ "${1:-}" = down ]; then
  if [ -e .sandbox/env ]; then
    source .sandbox/env
    { bin/sandbox status > /dev/null && show kubectl delete clusters --all --all-namespaces --timeout 5m &&
      show kubectl delete workspacetemplateapplies --all --all-namespaces --timeout 5m; } || {
      echo "Terraform did not destroy everything. See bin/sandbox status and captctl get, and run make quickstart-down again." \
        "To remove the sandbox and the Terraform state without destroying the rest, run make sandbox-down." >&2
      exit 1
    }
  fi
  exec bin/sandbox down
fi

bin/sandbox up
source .sandbox/env

# failed shows the cause, and keeps the sandbox for the commands that find out more.
failed() {
  captctl describe demo || true
  bin/sandbox status || true
  echo "Cluster demo is not ready. On a slow machine, run make quickstart again: it continues. make quickstart-down removes everything." >&2
}
trap failed ERR

# An existing cluster may have been upgraded, and EKS cannot downgrade.
kubectl get cluster demo > /dev/null 2>&1 || show kubectl apply -f config/samples/sandbox
printf '\n$ captctl get --watch\n'
captctl get --watch > >(grep --line-buffered ' demo ') & # One line per change.
watch=$!
stop_watch() { { kill "$watch" && wait "$watch"; } 2> /dev/null || true; }
trap stop_watch EXIT
kubectl wait captcontrolplane demo --for condition=Ready --timeout 10m > /dev/null
kubectl wait cluster demo --for condition=Available --timeout 5m > /dev/null
kubectl wait cluster demo --for condition=RemoteConnectionProbe --timeout 5m > /dev/null
kubectl wait machinepool demo-workers --for jsonpath='{.status.phase}'=Running --timeout 5m > /dev/null
stop_watch

show kubectl get clusters,captclusters,captcontrolplanes,machinepools,captmachinepools,workspacetemplateapplies,workspaces.tf.m.upbound.io
show captctl describe demo
show clusterctl describe cluster demo
clusterctl get kubeconfig demo > .sandbox/demo.kubeconfig
show kubectl --kubeconfig .sandbox/demo.kubeconfig get nodes
cat << 'END'

The cluster is ready. Next steps (docs/quickstart.md explains them):

  source .sandbox/env    # KUBECONFIG and PATH for kubectl, clusterctl and captctl
  captctl describe demo    # state, and the cause if it is not Ready
  kubectl patch captcontrolplane demo --type merge -p '{"spec":{"version":"v1.35.0"}}'    # upgrade from v1.34
  make quickstart-down    # destroy the cluster through Terraform and remove everything
END
