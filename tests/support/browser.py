"""Measurements of pages in a headless Chromium, at several widths, in light and dark mode."""

import html
import json
import os
import re
import shutil
import subprocess

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")

# A window cannot be as narrow as a phone, but a frame inside it can.
_WRAPPER = """<!doctype html><meta charset="utf-8">
{frames}
<pre id="out"></pre>
<script>
const luminance = rgb => {{
  const part = rgb.match(/[\\d.]+/g).slice(0, 3).map(x => x / 255)
    .map(x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
  return 0.2126 * part[0] + 0.7152 * part[1] + 0.0722 * part[2];
}};
const contrast = (a, b) => {{
  const [x, y] = [luminance(a), luminance(b)];
  return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05);
}};
const measure = frame => {{
  const page = frame.contentDocument, style = x => frame.contentWindow.getComputedStyle(x);
  const width = frame.contentWindow.innerWidth, ground = style(page.body).backgroundColor;
  const seen = [...page.querySelectorAll("p, td, th, dt, dd, h1, h2, figcaption, .badge, pre, li")];
  return {{
    width, scroll: page.scrollingElement.scrollWidth, ground,
    figures: [...page.images].map(image => {{
      const box = image.getBoundingClientRect(), frame = (image.closest("figure") ?? image).getBoundingClientRect();
      return {{natural: image.naturalWidth, width: box.width, height: box.height, alt: image.alt,
               inside: frame.left >= 0 && frame.right <= width}};
    }}),
    contrast: Math.min(...seen.map(x => contrast(style(x).color, ground))),
  }};
}};
addEventListener("load", () => {{
  const found = [...document.querySelectorAll("iframe")].map(measure);
  document.getElementById("out").textContent = JSON.stringify(found);
}});
</script>
"""


def chromium():
    """Return the browser. Without one, skip the test, or fail under continuous integration."""
    browser = next(filter(None, map(shutil.which, _NAMES)), None)
    if browser is None:
        reason = "Chromium is not installed"
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    return browser


def look(page, folder, *, widths=(400, 1200), dark=False):
    """Return the measurements at each width, and the lines on the browser's console."""
    frame = '<iframe srcdoc="{}" style="border: 0; width: {}px; height: 900px"></iframe>'
    frames = "\n".join(frame.format(html.escape(page.read_text()), width) for width in widths)
    wrapper = folder / "wrapper.html"
    wrapper.write_text(_WRAPPER.format(frames=frames))
    command = [chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr"]
    command += [
        f"--blink-settings=preferredColorScheme={0 if dark else 1}",
        f"--user-data-dir={folder / 'profile'}",
    ]
    command += ["--virtual-time-budget=5000", "--dump-dom", wrapper.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    out = re.search(r'<pre id="out">(.*?)</pre>', done.stdout, re.DOTALL)
    assert out is not None, done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return json.loads(html.unescape(out.group(1))), console
