"""Storage: what feeds accelerators with data, from drives to host memory and links."""
