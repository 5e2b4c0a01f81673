// The bundle is read when it arrives, while the kernel still computes what the first chart shows.
export default { initialize({ model }) { if (model.get("source")) readVega(model); }, render() {} };
