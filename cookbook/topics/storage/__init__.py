"""Storage: the input of accelerators, from drives to host memory and links."""
