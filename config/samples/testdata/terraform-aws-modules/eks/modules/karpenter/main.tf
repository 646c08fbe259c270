locals {
  role  = coalesce(var.node_iam_role_name, "Karpenter-${var.cluster_name}")
  queue = coalesce(var.queue_name, "Karpenter-${var.cluster_name}")
}

resource "terraform_data" "karpenter" {
  input = { role = local.role, queue = local.queue }

  lifecycle {
    precondition {
      condition     = length(local.role) <= (var.node_iam_role_use_name_prefix ? 37 : 64)
      error_message = "expected length of name or name_prefix to be in the range (1 - 64) or (1 - 38), got ${local.role}"
    }
    precondition {
      condition     = length(local.queue) <= 80
      error_message = "InvalidParameterValue: the name of a queue has at most 80 characters, got ${local.queue}"
    }
  }
}

output "queue_name" {
  value = terraform_data.karpenter.output.queue
}

output "node_iam_role_name" {
  value = terraform_data.karpenter.output.role
}
