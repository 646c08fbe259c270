/*
Copyright 2026 The CAPT Authors.

Licensed under the Apache License, Version 2.0 (the "License");
you may not use this file except in compliance with the License.
You may obtain a copy of the License at

    http://www.apache.org/licenses/LICENSE-2.0

Unless required by applicable law or agreed to in writing, software
distributed under the License is distributed on an "AS IS" BASIS,
WITHOUT WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied.
See the License for the specific language governing permissions and
limitations under the License.
*/

package captcluster

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/utils/ptr"

	infrav1 "github.com/capt-provider/capt/api/infrastructure/v1beta2"
	"github.com/capt-provider/capt/controllers/engine"
	"github.com/capt-provider/capt/test/builder"
)

// adopted is a CAPTCluster whose VPC the older CAPT had made, when this one sees it for the first time.
func adopted() *infrav1.CAPTCluster {
	captCluster := builder.CAPTCluster("demo")
	captCluster.Status.VPC.ID, captCluster.Status.Initialization.Provisioned = "vpc-1", ptr.To(true)
	engine.Set(captCluster, engine.True(infrav1.VPCReadyCondition, "VPCCreated", ""))
	return captCluster
}

func TestTheVPCOfAnAdoptedCAPTClusterIsThereUntilSomebodyKnowsBetter(t *testing.T) {
	captCluster := adopted()
	before := captCluster.Status.DeepCopy()
	status(captCluster, withApply())
	assert.Equal(t, *before, captCluster.Status, "nothing to write")

	status(captCluster, made(map[string]string{"vpc_id": "vpc-1"}))
	assert.Equal(t, "True Ready", builder.Story(captCluster.Status.Conditions)["Ready"])

	captCluster = adopted()
	status(captCluster, withApply(builder.NotUpToDate(infrav1.ApplyFailedReason, "VpcLimitExceeded")))
	assert.Equal(t, "False ApplyFailed", builder.Story(captCluster.Status.Conditions)["Ready"])
}

func TestAnAdoptedCAPTClusterThatIsPausedSaysSo(t *testing.T) {
	captCluster, facts := adopted(), withApply()
	facts.Paused = "annotation"
	status(captCluster, facts)
	assert.Equal(t, map[string]string{"VPCReady": "True VPCCreated", "Paused": "True Paused"}, builder.Story(captCluster.Status.Conditions))
}
