"""Build hook: makes the one JavaScript bundle that every chart shares."""

from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EXPORT = "export { vegaEmbed as default };"


class VegaBundleHook(BuildHookInterface):
    """Write cookbook/charts/vega_bundle.js with vl-convert, from JavaScript that the package carries."""

    PLUGIN_NAME = "custom"

    def initialize(self, version, build_data):
        """Build the bundle before hatchling collects the files."""
        import vl_convert

        target = Path(self.root) / "cookbook" / "charts" / "vega_bundle.js"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(vl_convert.javascript_bundle(EXPORT, vl_version="6.4"), encoding="utf-8")
