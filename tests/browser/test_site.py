"""The static pages, read from disk in a real browser."""

from pathlib import Path

from cookbook.publish.site import site

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"


def test_pages_from_disk_ask_nothing_of_the_network(page, tmp_path):
    addresses = [path.as_uri() for path in sorted(site(NOTEBOOKS, tmp_path).glob("*.html"))]
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    for address in addresses:
        page.goto(address)
        assert page.locator("h1").count() == 1
        shown = "images => images.every(image => image.complete && image.naturalWidth > 0 && image.alt)"
        assert page.locator("img").evaluate_all(shown), "a picture is missing or has no alternative text"
    assert [url for url in asked if not url.startswith("data:")] == addresses
