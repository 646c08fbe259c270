resource "terraform_data" "vpc" {
  input = { name = var.name, cidr = var.cidr, private = var.private_subnets, public = var.public_subnets }

  lifecycle {
    precondition {
      condition     = try(tonumber(split("/", var.cidr)[1]), 0) >= 16 && try(tonumber(split("/", var.cidr)[1]), 99) <= 28
      error_message = "InvalidVpc.Range: The CIDR '${var.cidr}' is invalid."
    }
    precondition {
      condition     = alltrue([for cidr in concat(var.private_subnets, var.public_subnets) : tonumber(split("/", cidr)[1]) <= 28])
      error_message = "InvalidSubnet.Range: a subnet is smaller than /28"
    }
    precondition {
      condition     = length(var.private_subnets) <= length(var.azs)
      error_message = "there are more subnets than zones"
    }
  }
}

output "vpc_id" {
  value = "vpc-0123456789abcdef0"
}

output "private_subnets" {
  value = [for i, cidr in var.private_subnets : format("subnet-0a%015d", i)]
}

output "public_subnets" {
  value = [for i, cidr in var.public_subnets : format("subnet-0b%015d", i)]
}
