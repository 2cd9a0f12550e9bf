"""The REST API: one module for each resource, thin; `routes` joins them."""
