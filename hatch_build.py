"""Build hook: makes what charts share, the JavaScript that draws them and the specs of those that panels show."""

import sys
from pathlib import Path

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

EXPORT = "export { vegaEmbed as default };"


class ChartsHook(BuildHookInterface):
    """Write cookbook/charts/vega_bundle.js with vl-convert, and specs.json with the package itself and Altair."""

    PLUGIN_NAME = "custom"

    def initialize(self, version, build_data):
        """Build both before hatchling collects the files."""
        import vl_convert

        target = Path(self.root) / "cookbook" / "charts" / "vega_bundle.js"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(vl_convert.javascript_bundle(EXPORT, vl_version="6.4"), encoding="utf-8")
        sys.path.insert(0, self.root)
        from cookbook.panels import specs

        specs.write()
