locals {
  role = coalesce(var.iam_role_name, var.name, "fargate-profile")
}

resource "terraform_data" "profile" {
  input = { cluster = var.cluster_name, name = var.name, selectors = var.selectors }

  lifecycle {
    precondition {
      condition     = length(local.role) <= (var.iam_role_use_name_prefix ? 37 : 64)
      error_message = "expected length of name or name_prefix to be in the range (1 - 64) or (1 - 38), got ${local.role}"
    }
    precondition {
      condition     = length(var.selectors) >= 1 && length(var.selectors) <= 5
      error_message = "InvalidParameterException: a Fargate profile has one to five selectors"
    }
    precondition {
      condition     = length(var.subnet_ids) > 0
      error_message = "InvalidParameterException: a Fargate profile needs subnets"
    }
  }
}

output "fargate_profile_id" {
  value = "${terraform_data.profile.output.cluster}:${terraform_data.profile.output.name}"
}

output "fargate_profile_arn" {
  value = "arn:aws:eks:eu-central-1:111122223333:fargateprofile/${terraform_data.profile.output.cluster}/${terraform_data.profile.output.name}/0123"
}

output "fargate_profile_status" {
  value = "ACTIVE"
}

output "fargate_profile_pod_execution_role_arn" {
  value = "arn:aws:iam::111122223333:role/${local.role}"
}
