"""The style sheet of reports: light and dark, readable on a phone, nothing loaded from elsewhere."""

from __future__ import annotations

STYLE = """
:root {
  --ink: #1c2530; --soft: #5c6b7a; --ground: #f5f7f9; --card: #ffffff; --line: #dde4ea; --mark: #0b6e99;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4eaf0; --soft: #96a5b4; --ground: #0e141a; --card: #161e26; --line: #2a3540; --mark: #58b7e0;
  }
  figure img { filter: invert(1) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main { max-width: 1080px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
header { border-bottom: 3px solid var(--mark); margin-bottom: 2rem; padding-bottom: 1rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.35rem; margin: 2.6rem 0 .4rem; }
p { margin: .3rem 0 1rem; max-width: 46rem; }
header p, figcaption { color: var(--soft); }
.grid {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 400px), 1fr)); gap: 1rem;
}
figure, .scroll { background: var(--card); border: 1px solid var(--line); border-radius: 12px; }
figure { margin: 0; padding: 1rem; display: flex; flex-direction: column; }
figure.wide { grid-column: 1 / -1; }
figure h3 { margin: 0 0 .6rem; font-size: 1rem; }
figure img { display: block; max-width: 100%; height: auto; margin: 0 auto auto; }
figcaption { margin-top: .7rem; font-size: .9rem; }
.scroll { overflow-x: auto; margin: .8rem 0 1.2rem; }
table { border-collapse: collapse; width: 100%; font-size: .94rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .5rem .9rem; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
th {
  color: var(--soft); font-weight: 600; font-size: .8rem; text-transform: uppercase; letter-spacing: .05em;
}
td.number { white-space: nowrap; }
td.number b { font-weight: 650; }
td.number span { color: var(--soft); }
details { margin: 2rem 0 0; }
summary { cursor: pointer; color: var(--mark); }
code { font: .88em ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
"""
