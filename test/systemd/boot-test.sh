#!/usr/bin/env bash
# Installs Posthorn into a fresh Debian (debootstrap) and boots it with systemd-nspawn: the unit as systemd runs it, with its
# sandbox. Run by `test/systemd/boot-test.sh` on a built checkout, as root on Debian; needs the Debian mirror, and takes some minutes.
#
#   BOOT_TEST_DIR   where to work, and what to keep for the next run (default: a new folder, removed at the end)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

[ "$(id -u)" = 0 ] || { echo 'boot-test: run this as root' >&2; exit 1; }
missing=()
for tool in debootstrap systemd-nspawn nsenter node; do command -v "$tool" >/dev/null || missing+=("$tool"); done
if [ "${#missing[@]}" -gt 0 ]; then
  echo "boot-test: missing: ${missing[*]} (apt-get install debootstrap systemd-container util-linux)" >&2
  exit 1
fi

work=${BOOT_TEST_DIR:-$(mktemp -d "${TMPDIR:-/tmp}/posthorn-boot.XXXXXX")}
mkdir -p "$work"
machine=$work/machine
init=
nspawn=
# A machine that does not end by itself within 20 s is ended.
stop_machine() {
  for _ in $(seq 20); do kill -0 "$nspawn" 2>/dev/null || break; [ -n "$init" ] || break; sleep 1; done
  kill -TERM "$nspawn" 2>/dev/null || true
  wait "$nspawn" 2>/dev/null || true
}
finish() {
  status=$?
  [ -z "$init" ] || inside systemctl poweroff --force >/dev/null 2>&1 || true
  [ -z "$nspawn" ] || stop_machine
  [ -n "${BOOT_TEST_DIR:-}" ] || rm -rf "$work"
  [ "$status" = 0 ] || echo "boot-test: FAILED (exit $status)" >&2
}
trap finish EXIT

say() { printf 'boot-test: %s\n' "$*"; }
check() { # check WHAT COMMAND...
  local what=$1
  shift
  if "$@"; then say "ok: $what"; else
    say "NOT OK: $what"
    [ -z "$init" ] || inside journalctl -u posthorn --no-pager -n 20 || true
    exit 1
  fi
}
inside() { env -i PATH="$PATH" nsenter --target "$init" --all -- "$@"; }
eventually() { # eventually SECONDS COMMAND...
  local left=$1
  shift
  until "$@" >/dev/null 2>&1; do
    left=$((left - 1))
    [ "$left" -gt 0 ] || return 1
    sleep 1
  done
}

# --- a fresh Debian with systemd --------------------------------------------------------------------------------------
if [ ! -d "$work/debian" ]; then
  say 'debootstrap'
  debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus bookworm "$work/debian.new" \
    "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$work/debootstrap.log" 2>&1 || {
    tail -5 "$work/debootstrap.log" >&2
    exit 1
  }
  cp "$(readlink -f "$(command -v node)")" "$work/debian.new/usr/bin/node"
  mv "$work/debian.new" "$work/debian"
fi
rm -rf "$machine"
cp -a "$work/debian" "$machine"

# --- installed twice --------------------------------------------------------------------------------------------------
tree() { (cd "$machine" && find . -printf '%p %m %U:%G %l %s %T@\n' | sort); }
install() { "$root/systemd/install.sh" --root "$machine" >>"$work/install.log" 2>&1 || { cat "$work/install.log" >&2 && return 1; }; }
: >"$work/install.log"
install
tree >"$work/first"
install
tree >"$work/second"
check 'a second run leaves the same tree' cmp "$work/first" "$work/second"

echo '{"held.test":"hold"}' >"$machine/etc/posthorn/credentials/delivery.routes"
chmod 600 "$machine/etc/posthorn/credentials/delivery.routes"

# --- booted -----------------------------------------------------------------------------------------------------------
say 'booting'
systemd-nspawn -D "$machine" --register=no --keep-unit --boot --console=pipe --private-network >"$work/nspawn.log" 2>&1 </dev/null &
nspawn=$!
# Its first children only prepare the machine, and end; what stays is called systemd.
find_init() {
  local child
  for child in $(cat "/proc/$nspawn/task/$nspawn/children" 2>/dev/null); do
    if [ "$(cat "/proc/$child/comm" 2>/dev/null)" = systemd ]; then init=$child && return 0; fi
  done
  return 1
}
for _ in $(seq 30); do find_init && break || sleep 1; done
check 'the machine boots' test -n "$init"
property() { inside systemctl show --property="$1" --value posthorn; }
check 'the service becomes ready by itself' eventually 90 inside systemctl is-active posthorn
check 'its status says where it listens' grep -q '^serving http://127.0.0.1:8025$' <<<"$(property StatusText)"
main=$(property MainPID)
inside cat "/proc/$main/status" >"$work/status"
check 'it is not root' grep -q "^Uid:	$(sed -n 's/^posthorn:[^:]*:\([0-9]*\):.*/\1/p' "$machine/etc/passwd")	" "$work/status"
check 'it has one capability, and gets no more' grep -q '^CapEff:	0000000000000400$' "$work/status"
check 'it can gain no rights' grep -q '^NoNewPrivs:	1$' "$work/status"
check 'its system calls are filtered' grep -q '^Seccomp:	2$' "$work/status"
rated() { inside systemd-analyze security --threshold=20 --no-pager posthorn >/dev/null; }
check 'systemd rates it 2.0 or better' rated

posthorn() { inside sh -c 'cd / && exec posthorn "$@"' posthorn "$@"; }
posthorn domains add acme.test --trust --json >/dev/null
posthorn send --from hi@acme.test --to a@held.test --subject Held --text Hello. --json >/dev/null
posthorn send --from hi@acme.test --to delivered@simulator.posthorn.test --subject Sent --text Hello. --json >/dev/null
delivered() { posthorn messages list --json | grep -q '"status": "delivered"'; }
check 'mail is delivered' eventually 10 delivered
check 'the route of the credential holds' test "$(posthorn messages list --status queued --json | grep -c '"id": "msg_')" = 1

said() { inside journalctl -u posthorn --no-pager -o cat | grep -q "$1"; }
inside systemctl reload posthorn
check 'a reload reads the settings again' eventually 10 said '"event":"reloaded"'

# --- a newcomer's attempts --------------------------------------------------------------------------------------------
run_as() { # run_as USER COMMAND...
  local user=$1
  shift
  inside setpriv --reuid="$user" --regid=65534 --clear-groups -- "$@"
}
rejected() { ! run_as 65534 sh -c 'cd / && exec posthorn queue list' 2>"$work/other-user"; }
check 'another user may not look' rejected
check 'and is told to use sudo' grep -q 'sudo posthorn' "$work/other-user"

# A certificate as certbot keeps it: links in a folder that only root may enter.
certs=$machine/etc/letsencrypt
mkdir -p "$certs/live/mail" "$certs/archive/mail"
fixtures=$root/test/fixtures/tls/chain
cat "$fixtures/leaf.pem" "$fixtures/issuer.pem" >"$certs/archive/mail/fullchain1.pem"
cp "$fixtures/leaf.key" "$certs/archive/mail/privkey1.pem"
chmod 600 "$certs/archive/mail/privkey1.pem"
chmod 700 "$certs/live" "$certs/archive"
for name in fullchain privkey; do ln -s "../../archive/mail/${name}1.pem" "$certs/live/mail/$name.pem"; done
check 'root installs the certificate of certbot, and the server uses it' grep -q 'the running server uses it' \
  <<<"$(posthorn tls install --any-name --cert /etc/letsencrypt/live/mail/fullchain.pem --key /etc/letsencrypt/live/mail/privkey.pem)"
check 'only the service may read its file' test "$(stat -c %a "$machine/var/lib/posthorn/tls.pem")" = 600
check 'which belongs to it' test "$(stat -c %u "$machine/var/lib/posthorn/tls.pem")" = "$(stat -c %u "$machine/var/lib/posthorn")"

# Backups on another disk.
inside mkdir -p /srv/other
inside mount -t tmpfs tmpfs /srv/other
inside sed -i 's|dir: /var/backups/posthorn|dir: /srv/other/bk|' /etc/posthorn/posthorn.yaml
inside systemctl restart posthorn
fails() { ! inside systemctl start posthorn-backup 2>/dev/null; }
check 'a backup where the unit may not write fails' fails
check 'and says why, as an error of the journal' grep -q 'cannot be written, since its file system is read-only' \
  <<<"$(inside journalctl -u posthorn-backup -p err --no-pager -o cat)"
doctor_sees() { ! posthorn doctor --only backups >"$work/doctor"; }
check 'the doctor sees it' doctor_sees
inside /opt/posthorn/systemd/paths.sh >"$work/paths.log"
inside systemctl restart posthorn
check 'after paths.sh it is made' inside systemctl start posthorn-backup
check 'on the other disk' bash -c "nsenter --target $init --all -- ls /srv/other/bk | grep -q '^posthorn-'"

# Settings that were edited and not taken over.
inside sed -i '$a log: { level: debug }' /etc/posthorn/posthorn.yaml
edited() { posthorn doctor --only settings | grep -q "$1"; }
check 'the doctor names a setting that is not in force, and the command for it' eventually 10 edited 'systemctl reload posthorn'
inside systemctl reload posthorn
check 'after that it is in force' eventually 10 edited '^ok '

# A file of the database that root has made.
inside systemctl stop posthorn
inside chown root:root /var/lib/posthorn/posthorn.db
fails_to_start() { ! inside systemctl start posthorn 2>/dev/null; }
check 'a database of another user keeps it from starting' fails_to_start
check 'and the journal has the command that gives it back' grep -q 'Run as root: chown .*/var/lib/posthorn/posthorn.db' \
  <<<"$(inside journalctl -u posthorn -p err --no-pager -o cat -n 20)"
inside chown posthorn:posthorn /var/lib/posthorn/posthorn.db
inside systemctl start posthorn

# Another mail server has port 25.
inside systemctl stop posthorn
inside systemd-run --unit=other-mail --quiet /usr/bin/node -e 'require("net").createServer().listen(25, "127.0.0.1")'
eventually 10 inside systemctl is-active other-mail
sleep 1
check 'it starts while another program has port 25' inside systemctl start posthorn
warned() { inside journalctl -u posthorn -p warning --no-pager -o cat | grep -q '"event":"smtp_port_taken"'; }
check 'and says so as a warning of the journal' eventually 10 warned
ready() { inside /usr/bin/node -e 'fetch("http://127.0.0.1:8025/readyz").then((r) => r.json()).then((b) => console.log(b.status, b.degraded?.join()))'; }
check 'it is ready, but degraded' test "$(ready)" = 'degraded mx'
inside systemctl stop other-mail
healed() { test "$(ready)" = 'ok undefined'; }
check 'it takes the port when it is free, without a restart' eventually 90 healed
main=$(property MainPID)

say 'making it hang, until the watchdog bites'
inside sh -c "kill -STOP $main"
restarted() { [ "$(property NRestarts)" = 1 ] && inside systemctl is-active posthorn; }
check 'a server that hangs is started again within 90 s' eventually 90 restarted
check 'the mail is still there' test "$(posthorn messages list --json | grep -c '"id": "msg_')" = 2

began=$(date +%s)
inside systemctl stop posthorn
check 'it stops within 10 s when idle' test $(($(date +%s) - began)) -le 10
check 'it was content at its end' test "$(property Result)" = success

# --- systemd opens the ports ---------------------------------------------------------------------------------------------
inside mkdir -p /etc/systemd/system/posthorn.service.d
inside cp /opt/posthorn/systemd/without-capability.conf /etc/systemd/system/posthorn.service.d/
inside systemctl daemon-reload
inside systemctl start posthorn
inside cat "/proc/$(property MainPID)/status" >"$work/status"
check 'with ports opened by systemd it has no capability' grep -q '^CapEff:	0000000000000000$' "$work/status"
confined_rate() { inside systemd-analyze security --threshold=13 --no-pager posthorn >/dev/null; }
check 'systemd rates it 1.3 or better' confined_rate
# Each client waits for a greeting; how many were turned away is printed.
inside /usr/bin/node -e '
  let refused = 0;
  const client = (port) => new Promise((resolve) => {
    const socket = require("net").connect(port, "127.0.0.1");
    socket.once("data", () => resolve(socket.destroy()));
    socket.once("error", () => resolve((refused += 1)));
  });
  const clients = [];
  const timer = setInterval(() => clients.push(client(25), client(587)), 200);
  setTimeout(() => {
    clearInterval(timer);
    Promise.all(clients).then(() => console.log(clients.length > 20 ? refused : "too few"));
  }, 8000);
' >"$work/refused" &
clients=$!
sleep 2
inside systemctl restart posthorn
wait "$clients"
check 'a restart refuses no connection to a port for mail' test "$(cat "$work/refused")" = 0
inside node -e '
  const socket = require("net").connect(25, "127.0.0.1");
  const lines = ["EHLO a.test", "MAIL FROM:<a@b.test>", "RCPT TO:<postmaster>", "DATA", "Subject: x\r\n\r\nx\r\n.", "QUIT"];
  socket.setEncoding("latin1").on("data", (text) => /^\d{3} /m.test(text) && lines.length > 0 && socket.write(`${lines.shift()}\r\n`));
'
read_by_child() { said '"event":"report".*"kind":"other"'; }
check 'its confined process reads mail under these restrictions' eventually 20 read_by_child
inside systemctl stop posthorn.socket posthorn

echo 'http: { port: eighty }' >>"$machine/etc/posthorn/posthorn.yaml"
check 'wrong settings are not started' bash -c "! nsenter --target $init --all -- systemctl start posthorn 2>/dev/null"
sleep 4
check 'nor tried again and again' test "$(property ExecMainStatus) $(property ActiveState)" = '78 failed'
say 'all is well'
