"""The cases of `heliograph authn test --batch` and `authz test --batch`: a module for each family of kinds."""
