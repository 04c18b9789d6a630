// Colours template fields during typing: the field itself is transparent, and the same text is shown coloured behind
// it. Without this script they are ordinary fields.
const LONGEST = 60_000;
const PIECES = /\{\{[^}]{0,2000}\}\}\}?|\{%[^%]{0,2000}%\}|<!--[^>]{0,2000}-->|<\/?[a-zA-Z][^<>{}]{0,500}>?/g;

// Comments are grey; tags, output and HTML have the colours of states, of which they say nothing here.
function classOf(piece) {
  if (/^(?:\{\{!|<!--|\{%-? *comment)/.test(piece)) return 'dim';
  if (/^(?:\{%|\{\{[#/^]|\{\{-? *else)/.test(piece)) return 'k-violet';
  return piece.startsWith('{{') ? 'k-blue' : 'k-good';
}

function colour(text, under) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(PIECES)) {
    const span = document.createElement('span');
    span.className = classOf(found[0]);
    span.textContent = found[0];
    parts.push(text.slice(at, found.index), span);
    at = found.index + found[0].length;
  }
  // A last empty line needs a character to have a height.
  under.replaceChildren(...parts, text.slice(at) + '\u200b');
}

for (const field of document.querySelectorAll('[data-code]')) {
  const box = field.parentElement;
  const under = document.createElement('pre');
  under.setAttribute('aria-hidden', 'true');
  // The field itself is not moved: it would lose the focus, and what is being typed.
  field.before(under);
  let waiting = 0;
  const follow = () => {
    under.scrollTop = field.scrollTop;
    under.scrollLeft = field.scrollLeft;
  };
  const draw = () => {
    waiting = 0;
    const isShort = field.value.length <= LONGEST;
    box.classList.toggle('on', isShort);
    if (isShort) colour(field.value, under);
    follow();
  };
  field.addEventListener('input', () => {
    if (waiting === 0) waiting = requestAnimationFrame(draw);
  });
  field.addEventListener('scroll', follow);
  draw();
}

// Asks before text that was not saved is lost: by the browser when the page goes, and by a question when htmx replaces it.
const editor = document.getElementById('editor');
if (editor !== null) {
  // Names with an underscore are those of the form itself, such as its token, which changes.
  const typed = () =>
    new URLSearchParams([...new FormData(editor)].filter(([name]) => !name.startsWith('_'))).toString();
  // A page with a refused form shows what was not saved.
  const saved = document.getElementById('fault') === null ? typed() : null;
  let isSending = false;
  const isLost = () => !isSending && document.contains(editor) && typed() !== saved;
  // At the window, which is after forms.js: a form that it holds back is not being sent.
  addEventListener('submit', (event) => {
    // The preview and the check go to the frame and leave the page.
    const target = event.submitter?.formTarget || event.target.target;
    if (event.target === editor && !target) isSending = !event.defaultPrevented;
  });
  addEventListener('beforeunload', (event) => {
    if (isLost()) event.preventDefault();
  });
  document.addEventListener('htmx:beforeRequest', (event) => {
    if (event.detail.target?.id === 'main' && isLost() && !confirm('Leave without saving?')) event.preventDefault();
  });
}

// The preview next to an editor follows it.
for (const form of document.querySelectorAll('form[data-preview]')) {
  const button = form.querySelector('[formtarget=preview]');
  let waiting = 0;
  const show = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => form.requestSubmit(button), 500);
  };
  form.addEventListener('input', show);
  form.addEventListener('submit', () => clearTimeout(waiting));
  if (form.elements.html.value !== '') show();
}

// What is typed is kept in this browser until it is saved, discarded, or the member signs out (palette.js), so that a page that is closed
// loses nothing.
const drafted = document.querySelector('form[data-draft]');
if (drafted !== null) {
  const name = `draft ${document.body.dataset.member} ${drafted.dataset.draft}`;
  const fields = ['name', 'alias', 'from', 'subject', 'html', 'text', 'sample_variables'];
  const now = () => JSON.stringify(fields.map((field) => drafted.elements[field]?.value ?? ''));
  const saved = now();
  const store = (act) => {
    try {
      return act(localStorage);
    } catch {
      // The browser has no storage, or no room in it: nothing is kept then.
      return null;
    }
  };
  const kept = store((storage) => storage.getItem(name));
  const notice = document.getElementById('draft-kept');
  // A page that says what was done shows what was saved; one with a fault shows what was typed.
  const isFresh = document.querySelector('.said, #fault') === null;
  if (kept !== null && kept !== saved && isFresh) {
    JSON.parse(kept).forEach((value, place) => {
      const field = drafted.elements[fields[place]];
      if (field) field.value = value;
    });
    for (const field of drafted.querySelectorAll('[data-code]'))
      field.dispatchEvent(new Event('input', { bubbles: true }));
    notice.hidden = false;
  } else if (!isFresh) {
    store((storage) => storage.removeItem(name));
    // A new template has a page of its own once it is saved.
    if (document.querySelector('.said') !== null) store((storage) => storage.removeItem(name.replace(/\S+$/, 'new')));
  }
  let pause = 0;
  drafted.addEventListener('input', () => {
    clearTimeout(pause);
    pause = setTimeout(() => store((storage) => storage.setItem(name, now())), 400);
  });
  notice.querySelector('[data-discard]').addEventListener('click', () => {
    store((storage) => storage.removeItem(name));
    location.reload();
  });
}
