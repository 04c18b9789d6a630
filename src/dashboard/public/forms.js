// Sends forms. A second click sends nothing. Before a form goes out, its session is looked up: if it has ended, the member signs in
// again in a dialog, and the form is sent then with all that was typed. The server refuses a form without this file, and says so.
const UNLOCK_MS = 5000;
const dialog = document.getElementById('ask');
const text = dialog?.querySelector('p');
const content = dialog?.querySelector('div');
const confirmButton = dialog?.querySelector('button[value=yes]');

// The header makes the server answer with the inside of a page, and name a redirect instead of redirecting.
const fetchPart = (url, options = {}) => fetch(url, { ...options, headers: { 'HX-Request': 'true' } });

// The dialog's answer: true for the button named `confirm`, false for all other ways to close it.
function showDialog(question, confirm = '') {
  text.textContent = question;
  confirmButton.textContent = confirm;
  confirmButton.hidden = confirm === '';
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'yes'), { once: true });
  });
}

function showMessage(message, confirm) {
  content.replaceChildren();
  return showDialog(message, confirm);
}

async function signIn() {
  await showStep(await fetchPart('/login'));
  return showDialog('Your session has ended. Sign in again to send the form; what you typed is still there.');
}

// Shows a page of the sign-in in the dialog. A redirect to another page means that the sign-in is complete.
async function showStep(answer) {
  const next = answer.headers.get('HX-Redirect');
  if (next === null) {
    content.innerHTML = await answer.text();
    content.querySelector('[autofocus]')?.focus();
  } else if (next.startsWith('/login')) await showStep(await fetchPart(next));
  else dialog.close('yes');
}

content?.addEventListener('submit', async (event) => {
  event.preventDefault();
  const { action } = event.target;
  const body = new URLSearchParams(new FormData(event.target));
  try {
    await showStep(await fetchPart(action, { method: 'POST', body }));
  } catch {
    text.textContent = 'The server could not be reached. Try again; what you typed in the form is still there.';
  }
});

// Member, account and form token of the session; null if it has ended: then the answer leads to the sign-in.
async function readSession() {
  const answer = await fetchPart('/session');
  if (answer.headers.has('HX-Redirect')) return null;
  if (answer.status !== 200) throw new Error(`the session could not be read: ${answer.status}`);
  const part = new DOMParser().parseFromString(await answer.text(), 'text/html');
  return part.getElementById('session').dataset;
}

// True once the form can be sent as the member and for the account that it was filled in for.
async function prepare(form) {
  const { member, accountName } = document.body.dataset;
  let session = await readSession();
  const hasEnded = session === null;
  if (hasEnded) {
    if (!(await signIn())) return false;
    session = await readSession();
  }
  if (session?.member !== member)
    return showMessage(`This form was filled in by ${member}, and someone else is signed in now. It was not sent.`);
  const account = form.elements._account?.value ?? session.account;
  if (account !== session.account) {
    const question = `You look at ${session.accountName} in another window, and this form is for ${accountName}.`;
    if (!hasEnded && !(await showMessage(question, 'Switch back and send'))) return false;
    const body = new URLSearchParams({ _token: session.token, account });
    const answer = await fetchPart('/account', { method: 'POST', body });
    if (!answer.ok) throw new Error(`the account could not be switched: ${answer.status}`);
  }
  for (const input of document.getElementsByName('_token')) input.value = session.token;
  return true;
}

document.addEventListener('submit', async (event) => {
  const { target: form, submitter } = event;
  if (event.defaultPrevented || form.method !== 'post' || submitter?.formTarget) return;
  if (form.isPrepared) {
    form.isPrepared = false;
    return;
  }
  if (form.isSent) {
    event.preventDefault();
    return;
  }
  form.isSent = true;
  setTimeout(() => (form.isSent = false), UNLOCK_MS);
  // Outside of the page's content there is nothing to lose: signing out, the theme.
  if (dialog === null || form.closest('main') === null) return;
  event.preventDefault();
  form.isPrepared = await prepare(form).catch(() =>
    showMessage('The server could not be reached, so the form was not sent. Try again.'),
  );
  if (form.isPrepared) form.requestSubmit(submitter);
  else form.isSent = false;
});
// A page that the browser takes back from its history can be sent again, as a form of its own: the server does a form with the same
// number and fields once.
addEventListener('pageshow', ({ persisted }) => {
  for (const form of document.forms) form.isSent = false;
  if (!persisted) return;
  const number = [...crypto.getRandomValues(new Uint32Array(4))].join('-');
  for (const input of document.getElementsByName('_form')) input.value = number;
});

// Reads a file into a text field. UTF-16, which some services export, begins with a mark.
async function textOf(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  return new TextDecoder(bytes[0] === 0xff && bytes[1] === 0xfe ? 'utf-16le' : 'utf-8').decode(bytes);
}

for (const input of document.querySelectorAll('input[type=file][data-into]')) {
  input.hidden = false;
  input.addEventListener('change', async () => {
    const [file] = input.files;
    if (file !== undefined) document.getElementById(input.dataset.into).value = await textOf(file);
  });
}
