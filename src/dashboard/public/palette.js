// The palette: Ctrl-K or "/" opens a search over messages, domains, templates, pages and acts, used by keyboard alone. Its answers
// come from the page /search, which works by itself without this file.
const PAUSE_MS = 120;
const dialog = document.getElementById('palette');
const field = dialog?.querySelector('input');
const list = dialog?.querySelector('[role=listbox]');
const count = dialog?.querySelector('[role=status]');

const options = () => [...list.children];
let chosen = -1;
function choose(at) {
  const all = options();
  chosen = all.length === 0 ? -1 : (at + all.length) % all.length;
  all.forEach((one, place) => one.setAttribute('aria-selected', String(place === chosen)));
  if (chosen >= 0) field.setAttribute('aria-activedescendant', all[chosen].id);
  else field.removeAttribute('aria-activedescendant');
  all[chosen]?.scrollIntoView({ block: 'nearest' });
}

function show(entries) {
  list.replaceChildren(
    ...entries.map(({ href, kind, text }, place) => {
      const option = Object.assign(document.createElement('li'), { id: `palette-${place}` });
      option.setAttribute('role', 'option');
      Object.assign(option.dataset, { href, kind, text });
      option.append(text, Object.assign(document.createElement('span'), { className: 'dim', textContent: ` ${kind}` }));
      return option;
    }),
  );
  count.textContent = entries.length === 0 ? 'Nothing found' : `${entries.length} found`;
  choose(0);
}

let asked = 0;
let waiting = 0;
// What is found is of the text in the field, and not of an earlier one.
let isFound = false;
async function search() {
  const text = field.value.trim();
  const number = ++asked;
  if (text === '') {
    show([]);
    isFound = true;
    return void (count.textContent = '');
  }
  const headers = { 'HX-Request': 'true', 'X-Page-Of': document.body.dataset.pageOf };
  const answer = await fetch(`/search?q=${encodeURIComponent(text)}`, { headers });
  // The session has ended, or is of another account by now.
  const elsewhere = answer.headers.get('HX-Redirect');
  if (elsewhere !== null) return location.assign(elsewhere);
  // An answer to an earlier text may come after that to a later one.
  if (number !== asked || answer.status !== 200) return;
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  show([...page.querySelectorAll('#found a')].map((link) => ({ ...link.dataset, href: link.getAttribute('href') })));
  isFound = true;
}

async function enter() {
  clearTimeout(waiting);
  if (!isFound) await search();
  if (isFound) go(options()[chosen]);
}

function go(option) {
  if (option === undefined) return;
  const signOut = document.querySelector('form[action="/logout"]');
  if (option.dataset.href === '/logout') return void signOut.requestSubmit();
  location.assign(option.dataset.href);
}

function open() {
  if (dialog.open) return;
  field.value = '';
  dialog.showModal();
  void search();
}

if (dialog !== null) {
  document.addEventListener('keydown', (event) => {
    const isShortcut = (event.ctrlKey || event.metaKey) && event.key === 'k' && !event.altKey;
    const isSlash = event.key === '/' && !event.ctrlKey && !event.metaKey && !event.altKey;
    // On a page with a search of its own "/" goes there (app.js).
    const isElsewhere =
      event.target.closest('input, select, textarea, dialog') === null &&
      document.querySelector('main [role=search]') === null;
    if (!isShortcut && !(isSlash && isElsewhere)) return;
    event.preventDefault();
    open();
  });
  document.querySelector('[data-palette]')?.addEventListener('click', (event) => {
    event.preventDefault();
    open();
  });
  field.addEventListener('input', () => {
    isFound = false;
    asked++;
    clearTimeout(waiting);
    waiting = setTimeout(search, PAUSE_MS);
  });
  field.addEventListener('keydown', (event) => {
    if (event.key === 'ArrowDown') choose(chosen + 1);
    else if (event.key === 'ArrowUp') choose(chosen - 1);
    else if (event.key === 'Enter') void enter();
    else return;
    event.preventDefault();
  });
  list.addEventListener('click', ({ target }) => go(target.closest('[role=option]') ?? undefined));
}
// Drafts of templates (editor.js) are kept until the member signs out, or the page asks for a sign-in.
function forgetDrafts() {
  try {
    for (const name of Object.keys(localStorage)) if (name.startsWith('draft')) localStorage.removeItem(name);
  } catch {
    // The browser has no storage, so nothing is kept.
  }
}
document.addEventListener('submit', ({ target }) => {
  if (target.getAttribute('action') === '/logout') forgetDrafts();
});
if (dialog === null) forgetDrafts();
