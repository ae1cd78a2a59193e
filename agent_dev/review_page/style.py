"""The style sheet of the page. It loads nothing, and no text of the agent is in it."""

STYLE = """
:root { color-scheme: light dark; --page: #fff; --text: #1f2328; --dim: #59636e; --line: #d1d9e0; --box: #f6f8fa;
  --added: #dafbe1; --deleted: #ffebe9; --none: #f6f8fa; --risk: #9a6700; --block: #b3261e; --link: #0550ae; }
@media (prefers-color-scheme: dark) {
  :root { --page: #0d1117; --text: #e6edf3; --dim: #9198a1; --line: #3d444d; --box: #151b23;
    --added: #12361f; --deleted: #4a1c1c; --none: #151b23; --risk: #d29922; --block: #ff7b72; --link: #79c0ff; }
}
body { margin: 1rem auto; max-width: 110rem; padding: 0 1rem; background: var(--page); color: var(--text);
  font: 14px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
a { color: var(--link); }
code, pre, td { font: 12px/1.5 ui-monospace, monospace; }
pre { white-space: pre-wrap; margin: .5rem 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; margin: .5rem 0; }
dt { color: var(--dim); } dd { margin: 0; overflow: hidden; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; contain: paint; }
summary { padding: .4rem .7rem; background: var(--box); cursor: pointer; overflow: hidden; }
.body { padding: .2rem .7rem .7rem; overflow: hidden; }
.kind, .dim, .label { color: var(--dim); }
.kind { display: inline-block; min-width: 5.5rem; }
.label { border: 1px solid var(--line); border-radius: 9px; padding: 0 .5rem; font-size: 12px; }
.risk { color: var(--risk); } .block { color: var(--block); }
table { table-layout: fixed; width: 100%; border-collapse: collapse; border: 1px solid var(--line); margin-top: .5rem; }
td { vertical-align: top; padding: 0 .5rem; white-space: pre-wrap; overflow: hidden; }
col.number { width: 4.5rem; }
td.number, tr.hunk td { color: var(--dim); } td.number { text-align: right; user-select: none; }
tr.hunk td { background: var(--box); }
td.added { background: var(--added); } td.deleted { background: var(--deleted); } td.none { background: var(--none); }
td.added::before { content: "+"; } td.deleted::before { content: "-"; } td.same::before { content: " "; }
td i { color: var(--dim); font-style: normal; }
"""
