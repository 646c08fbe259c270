locals {
  role      = coalesce(var.iam_role_name, "${var.name}-cluster")
  auto_role = coalesce(var.node_iam_role_name, "${var.name}-eks-auto")
  auto_mode = try(var.compute_config.enabled, false) == true
}

resource "aws_eks_cluster" "this" {
  name    = var.name
  version = var.kubernetes_version

  dynamic "compute_config" {
    for_each = var.compute_config != null ? [var.compute_config] : []

    content {
      enabled    = compute_config.value.enabled
      node_pools = compute_config.value.node_pools
    }
  }

  lifecycle {
    precondition {
      condition     = can(regex("^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$", var.name))
      error_message = "InvalidParameterException: the name of an EKS cluster has letters, digits, - and _, at most 100."
    }
    precondition {
      condition     = length(local.role) <= (var.iam_role_use_name_prefix ? 38 - length(var.prefix_separator) : 64)
      error_message = "expected length of name or name_prefix of the role of the cluster to be in the range (1 - 64) or (1 - 38), got ${local.role}"
    }
    precondition {
      condition     = !local.auto_mode || length(local.auto_role) <= (var.node_iam_role_use_name_prefix ? 37 : 64)
      error_message = "expected length of name or name_prefix of the role of nodes to be in the range (1 - 64) or (1 - 38), got ${local.auto_role}"
    }
    precondition {
      condition     = length(distinct(var.subnet_ids)) >= 2
      error_message = "InvalidParameterException: Subnets specified must be in at least two different AZs"
    }
    precondition {
      condition     = var.endpoint_public_access || var.endpoint_private_access
      error_message = "InvalidParameterException: Private and public endpoint access cannot be false"
    }
    precondition {
      condition = alltrue([for entry in values(var.access_entries) : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:(role|user)/", entry.principal_arn)) &&
      length(coalesce(entry.policy_associations, {})) + length(coalesce(entry.kubernetes_groups, [])) > 0])
      error_message = "InvalidParameterException: The principalArn parameter format is not valid, or the entry grants nothing"
    }
    precondition {
      condition     = can(regex("^[0-9]+[.][0-9]+$", var.kubernetes_version))
      error_message = "InvalidParameterException: unsupported Kubernetes version"
    }
  }
}

output "cluster_name" {
  value = aws_eks_cluster.this.name
}

output "cluster_arn" {
  value = "arn:aws:eks:eu-central-1:111122223333:cluster/${aws_eks_cluster.this.name}"
}

output "cluster_endpoint" {
  value = "https://0123456789ABCDEF0123456789ABCDEF.gr7.eu-central-1.eks.amazonaws.com"
}

output "cluster_certificate_authority_data" {
  value = base64encode("-----BEGIN CERTIFICATE-----\n")
}

output "cluster_version" {
  value = aws_eks_cluster.this.version
}

output "oidc_provider_arn" {
  value = "arn:aws:iam::111122223333:oidc-provider/oidc.eks.eu-central-1.amazonaws.com/id/0123456789ABCDEF0123456789ABCDEF"
}
