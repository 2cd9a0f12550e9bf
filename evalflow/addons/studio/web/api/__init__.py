"""The REST API: one module for each resource, thin; `web.application` joins them."""
