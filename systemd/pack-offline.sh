#!/bin/sh
# Packs this built checkout, with its packages and the compiled sqlite3, into one file for machines without a network, a compiler
# or git (docs/install.md). `npm run pack:offline` installs and builds first.
#
#   systemd/pack-offline.sh [--to FOLDER]
#
#   --to FOLDER   where the file and its checksum go; the present folder if absent
set -eu
umask 022

. "$(dirname "$0")/common.sh"

to=.
while [ $# -gt 0 ]; do
  case "$1" in
  --to)
    [ -d "${2:-}" ] || fail "--to: there is no folder ${2:-}"
    to=$2
    shift
    ;;
  -h | --help)
    show_help "$0"
    exit 0
    ;;
  *) fail "unknown option $1 (see --help)" ;;
  esac
  shift
done
to=$(cd "$to" && pwd)

source=$(cd "$(dirname "$0")/.." && pwd)
command -v node >/dev/null || fail 'Node.js is missing: 20.19 or newer is needed'
check_built "$source"

# The compiled file is for one architecture and C library; it does not depend on the version of Node.js (Node-API).
name=$(cd "$source" && node -p '
  const { version } = require("./package.json");
  const libc = process.report.getReport().header.glibcVersionRuntime === undefined ? "-musl" : "";
  `posthorn-${version}-${process.platform}-${process.arch}${libc}`;
')
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
. "$source/systemd/stage-program.sh"
stage_program "$source" "$scratch/$name" "$scratch"
# install.sh compares its time with that of the sources.
: >"$scratch/$name/dist/.built"
chmod -R u=rwX,go=rX "$scratch/$name"

# The same checkout gives the same bytes: files in order, without owners, with the time of the commit or of the build.
at=$(git -C "$source" log -1 --format=%ct 2>/dev/null || stat -c %Y "$source/dist/src/main.js")
tar -C "$scratch" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$at" -cf "$scratch/program.tar" "$name"
gzip -n <"$scratch/program.tar" >"$to/$name.tar.gz.new"
mv "$to/$name.tar.gz.new" "$to/$name.tar.gz"
(cd "$to" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
say "$to/$name.tar.gz"
say "$to/$name.tar.gz.sha256"
