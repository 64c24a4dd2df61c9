"""The style sheet of reports: light and dark, readable on a phone, nothing loaded from elsewhere."""

from __future__ import annotations

STYLE = """
:root {
  --ink: #1c2530; --soft: #5c6b7a; --ground: #f5f7f9; --card: #ffffff; --line: #dde4ea; --mark: #0b6e99;
  --green: #1a7f4b; --red: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e4eaf0; --soft: #96a5b4; --ground: #0e141a; --card: #161e26; --line: #2a3540; --mark: #58b7e0;
    --green: #5fd198; --red: #ff8a80;
  }
  figure img { filter: invert(1) hue-rotate(180deg); }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main { max-width: 1120px; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
header { border-bottom: 3px solid var(--mark); margin-bottom: 2rem; padding-bottom: 1rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.35rem; margin: 2.6rem 0 .4rem; }
h2.chapter { font-size: 1.7rem; margin-top: 4rem; border-top: 3px solid var(--mark); padding-top: 1.4rem; }
header + h2.chapter { border-top: 0; margin-top: 1rem; padding-top: 0; }
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
th, td { text-align: left; padding: .5rem .75rem; border-bottom: 1px solid var(--line); vertical-align: top; }
tr:last-child td { border-bottom: 0; }
th {
  color: var(--soft); font-weight: 600; font-size: .8rem; text-transform: uppercase; letter-spacing: .05em;
}
td.number { white-space: nowrap; }
td b { font-weight: 650; }
td.number span { color: var(--soft); }
details { margin: .8rem 0 0; }
.grid + details, .scroll + details, .words + details { margin-top: 2rem; }
summary { cursor: pointer; color: var(--mark); }
code { font: .88em ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.words {
  background: var(--card); border: 1px solid var(--line); border-left: 4px solid var(--mark); border-radius: 12px;
  padding: .9rem 1.2rem; margin: .8rem 0 1.2rem;
}
.words p { max-width: 60rem; margin: .35rem 0; }
.words p:first-child { font-size: 1.08rem; font-weight: 600; }
.tag {
  display: inline-block; border-radius: 99px; padding: .02rem .6rem; margin: 0 .3rem .2rem 0; font-size: .8rem;
  font-weight: 600; white-space: nowrap; color: var(--tone); border: 1px solid var(--tone);
}
.good { --tone: var(--green); } .bad { --tone: var(--red); } .plain { --tone: var(--soft); }
.note { display: block; color: var(--soft); font-size: .85rem; min-width: 12rem; max-width: 30rem; }
footer { margin-top: 3rem; color: var(--soft); font-size: .85rem; }
"""
