// Additions for browsers with scripts: copying, the viewer's time zone, keys. Every page works without it.
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

document.documentElement.classList.add('scripted');

// Times are in the zone that the page names, otherwise in the viewer's, which a cookie tells the server; the title keeps UTC.
const viewersZone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const host = location.protocol === 'https:' ? ['__Host-', '; Secure'] : ['', ''];
document.cookie = `${host[0]}posthorn_zone=${viewersZone}; Path=/; SameSite=Lax; Max-Age=31536000${host[1]}`;
const clocks = new Map();
function clockText(at, timeZone) {
  const style = { dateStyle: 'short', timeStyle: 'medium', hourCycle: 'h23', timeZone };
  if (!clocks.has(timeZone)) clocks.set(timeZone, new Intl.DateTimeFormat('sv-SE', style));
  return clocks.get(timeZone).format(at);
}
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
function localTimes(root = document) {
  const zone = new URLSearchParams(location.search).has('tz')
    ? (document.querySelector('[name=tz]')?.defaultValue ?? viewersZone)
    : viewersZone;
  for (const time of all('time:not([data-ago])', root)) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    const text = clockText(at, zone);
    const isToday = text.slice(0, 10) === clockText(new Date(), zone).slice(0, 10);
    const day = isToday ? '' : `${Number(text.slice(8, 10))} ${MONTHS[text.slice(5, 7) - 1]} `;
    const { clock } = time.dataset;
    time.textContent = clock === undefined ? text : day + text.slice(11, 11 + Number(clock));
  }
  const named = document.getElementById('zone');
  if (named !== null) named.textContent = zone === 'UTC' ? zone : `${zone}, UTC on hover`;
}
localTimes();

// Prepares what htmx inserts like the rest of the page. A part that polls does not extend the session, pauses while the page is
// hidden, and stays unchanged when an answer fails.
const isPoll = (element) => element.hasAttribute('data-poll');
document.addEventListener('htmx:load', ({ target }) => {
  localTimes(target);
  reachable(target);
});
const POLL_MS = 30_000;
document.addEventListener('htmx:configRequest', ({ detail }) => {
  // Another window may have switched the account: the server sends no part of it to a page of the other one.
  if (document.body.dataset.pageOf !== undefined) detail.headers['X-Page-Of'] = document.body.dataset.pageOf;
  if (isPoll(detail.elt)) {
    detail.headers['X-Poll'] = '1';
    detail.timeout = POLL_MS;
  }
  // Empty fields are left out of the address.
  if (detail.verb === 'get')
    for (const [name, value] of [...detail.formData]) if (value === '') detail.formData.delete(name);
});
// A form that is replaced while it is being sent would be lost (forms.js).
const isSending = () => [...document.forms].some((form) => form.isSent);
const swappedBy = (elt) => [elt, ...all(elt.getAttribute('hx-select-oob') || 'none')];
// The focus would be lost with its element.
const isInUse = (part) =>
  part.querySelector(':focus-visible') !== null ||
  (part.contains(document.activeElement) &&
    document.activeElement !== document.body &&
    part.querySelector('details[open]') !== null);
const isKept = (elt) =>
  document.querySelector('[data-pause][aria-pressed=true]') !== null || isSending() || swappedBy(elt).some(isInUse);
document.addEventListener('htmx:beforeRequest', (event) => {
  const { elt } = event.detail;
  const isAway = document.hidden || document.querySelector('dialog[open]') !== null;
  if (isPoll(elt) && (isAway || isKept(elt))) event.preventDefault();
});
// What shows nothing new is left as it is, so that a selection and the reader's place stay.
const isSame = ({ elt, serverResponse }) => {
  const page = new DOMParser().parseFromString(serverResponse, 'text/html');
  return page.querySelector(elt.getAttribute('hx-select'))?.textContent === elt.textContent;
};
document.addEventListener('htmx:beforeSwap', ({ detail }) => {
  if (isPoll(detail.elt) && (detail.xhr.status >= 400 || isKept(detail.elt) || isSame(detail)))
    detail.shouldSwap = false;
});
document.addEventListener('click', ({ target }) => {
  if (target.matches('[data-pause]')) target.ariaPressed = target.ariaPressed !== 'true';
});

// What the reader has opened in a part that polls stays open.
const openIds = (root) => all('details[open][id]', root).map(({ id }) => id);
let opened = [];
document.addEventListener('htmx:beforeSwap', ({ detail }) => {
  opened = isPoll(detail.elt) ? openIds(document) : [];
});
document.addEventListener('htmx:afterSwap', () => {
  for (const id of opened) document.getElementById(id)?.setAttribute('open', '');
});
// While a request runs the page says so, to the eye by a line that moves (style.css). An answer that does not come is said as well:
// without this a click would seem to do nothing, and a live page to be up to date.
const main = document.getElementById('main');
const unreachable = document.getElementById('unreachable');
let answeredAt = new Date();
const pageTime = () => clockText(answeredAt, viewersZone).slice(11);
function warn(text) {
  unreachable.textContent = text;
  unreachable.hidden = false;
}
function sayUnreachable() {
  const why = navigator.onLine ? 'The server does not answer.' : 'You are offline.';
  warn(`${why} This page is of ${pageTime()}. Try again in a moment.`);
}
// A poll is refused if another window has switched the account or somebody else is signed in, and if what the page shows is gone.
function sayOutdated() {
  warn(`This page is of ${pageTime()} and no longer follows what happens: reload it.`);
}
for (const name of ['htmx:sendError', 'htmx:timeout']) document.addEventListener(name, sayUnreachable);
// A link to a whole page would end at the browser's own page; the server may be on this machine.
document.addEventListener('click', (event) => {
  const link = event.target.closest('a[href^="/"]');
  if (navigator.onLine || link === null || event.defaultPrevented) return;
  event.preventDefault();
  fetch('/session').then(() => location.assign(link.href), sayUnreachable);
});
addEventListener('offline', sayUnreachable);
addEventListener('online', () => (unreachable.hidden = true));
document.addEventListener('htmx:beforeSend', ({ detail }) => {
  if (!isPoll(detail.elt)) main.setAttribute('aria-busy', 'true');
});
document.addEventListener('htmx:afterRequest', ({ detail }) => {
  if (!isPoll(detail.elt)) main.removeAttribute('aria-busy');
  const { status = 0 } = detail.xhr ?? {};
  if (isPoll(detail.elt) && status >= 500) return sayUnreachable();
  if (isPoll(detail.elt) && status >= 400) return sayOutdated();
  if (status === 0 || leadsAway(detail)) return;
  answeredAt = new Date();
  unreachable.hidden = true;
});

// The poll after the end of a session leads to the sign-in, except away from what was typed: forms.js asks for the sign-in in place.
const leadsAway = ({ elt, xhr }) => isPoll(elt) && xhr.getResponseHeader('HX-Redirect') !== null;
function isTyped({ type, options, checked, defaultChecked, value, defaultValue }) {
  if (type === 'checkbox' || type === 'radio') return checked !== defaultChecked;
  const usual = options && ([...options].find((one) => one.defaultSelected) ?? options[0]);
  return value !== (usual?.value ?? defaultValue ?? value);
}
const isFilledIn = () =>
  // A refused form is shown with what was typed.
  document.getElementById('fault') !== null ||
  all('form[method=post] :is(input:not([type=hidden]), select, textarea)', main).some(isTyped);
document.addEventListener('htmx:beforeOnLoad', (event) => {
  if (!leadsAway(event.detail) || !isFilledIn()) return;
  event.preventDefault();
  warn('Your session has ended. What you typed is still here: send it, and sign in.');
});

// A list that grows at its end is scrolled along, unless the reader has scrolled up.
const NEAR_PX = 60;
document.addEventListener('htmx:beforeSwap', ({ target }) => {
  const list = target.closest('[data-follow]');
  if (list !== null) list.isFollowed = list.scrollTop + list.clientHeight > list.scrollHeight - NEAR_PX;
});
document.addEventListener('htmx:afterSettle', () => {
  for (const list of all('[data-follow]')) if (list.isFollowed !== false) list.scrollTop = list.scrollHeight;
});

// Copy buttons.
document.addEventListener('click', async (event) => {
  const button = event.target.closest('[data-copy]');
  if (button === null) return;
  button.label ??= button.innerHTML;
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.textContent = 'Copied';
  } catch {
    // Without TLS there is no clipboard: the text is selected for the keyboard instead.
    const text = button.parentElement.querySelector('pre, code');
    if (text !== null) getSelection().selectAllChildren(text);
    button.textContent = text === null ? 'Not possible without TLS' : 'Selected';
  }
  setTimeout(() => (button.innerHTML = button.label), 1500);
});

// Marks and focuses the field that a refused form names.
function markFault(root = document) {
  const name = root.querySelector('.fault[data-field]')?.dataset.field.split(/[.[]/)[0];
  const named = name === undefined ? [] : all(`main form [name="${CSS.escape(name)}"]:not([type=hidden])`, root);
  const fault = root.querySelector('.fault[data-field]');
  // Another form, or a closed row, may have a field of the same name.
  const field =
    named.find((one) => one.form.contains(fault) || 'refused' in one.form.dataset) ??
    named.find((one) => one.checkVisibility());
  if (field === undefined) return;
  // The message is moved next to its form, which may be far down.
  if (field.form.parentElement.matches('.split, .editor')) field.form.prepend(fault);
  else field.form.before(fault);
  field.setAttribute('aria-invalid', 'true');
  field.setAttribute('aria-describedby', 'fault');
  field.focus();
}
markFault();

// Selects that send their form at once.
document.addEventListener('change', ({ target }) => {
  const isCustom = target.name === 'range' && target.value === 'custom';
  if (isCustom) openRange(target.form);
  else if (target.matches('.filters select, .top .switch select')) target.form.requestSubmit();
});
// A time range of one's own: its fields open, and typing in them chooses it.
function openRange(form) {
  form.querySelector('details.more').open = true;
  form.elements.from.focus();
}
document.addEventListener('input', ({ target }) => {
  if (target.matches('.more [type=datetime-local]')) target.form.elements.range.value = 'custom';
});
document.addEventListener('focusin', ({ target }) => {
  if (target.name !== 'tz' || target.list.childElementCount > 0) return;
  const zones = ['UTC', ...Intl.supportedValuesOf('timeZone')];
  target.list.append(...zones.map((value) => Object.assign(document.createElement('option'), { value })));
});
// Boxes that scroll can be scrolled by keyboard.
function reachable(root = document) {
  for (const box of all('.scroll, pre:not([aria-hidden])', root)) {
    if (box.scrollWidth > box.clientWidth || box.scrollHeight > box.clientHeight + 1) box.tabIndex = 0;
    else box.removeAttribute('tabindex');
  }
}
reachable();
addEventListener('resize', () => reachable());

// A preset ticks its boxes; ticking a box selects the custom choice.
for (const form of all('form:has([name=preset])')) {
  form.addEventListener('change', ({ target }) => {
    if (target.name === 'preset' && target.dataset.scopes !== undefined) {
      const wanted = target.dataset.scopes.split(' ');
      for (const box of form.elements.scopes) box.checked = wanted.includes(box.value);
    }
    if (target.name === 'preset' && target.value === 'custom') form.querySelector('details').open = true;
    if (target.name === 'scopes') form.elements.preset.value = 'custom';
  });
}

// Keys: "/" to the search, "j" and "k" through rows.
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest('input, select, textarea')) return;
  if (event.key === '/') {
    const field = document.querySelector('[role=search] input');
    if (field === null) return;
    event.preventDefault();
    field.focus();
  } else if (event.key === 'j' || event.key === 'k') {
    const links = all('.rows tbody tr').flatMap((row) => row.querySelector('a') ?? []);
    const at = links.findIndex((link) => link.closest('tr').contains(document.activeElement));
    links[Math.min(links.length - 1, Math.max(0, at + (event.key === 'j' ? 1 : -1)))]?.focus();
  }
});
