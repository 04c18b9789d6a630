# What the scripts of this folder share; each reads this file with `.`.

say() { printf 'posthorn: %s\n' "$*"; }
fail() {
  printf 'posthorn: %s\n' "$*" >&2
  exit 1
}

# show_help SCRIPT: prints the comment at its head.
show_help() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$1"; }

# take_root FOLDER: sets `root` to the system that is mounted there; it is empty for this one.
take_root() {
  [ -d "${1:-}" ] || fail "--root: there is no folder ${1:-}"
  root=$(cd "$1" && pwd)
  [ "$root" != / ] || root=
}

# need_root COMMAND: fails unless this is root.
need_root() { [ "$(id -u)" = 0 ] || fail "run this as root: sudo $1"; }

# check_built SOURCE: fails unless the checkout has a whole build that is not older than its sources. The build writes dist/.built
# last, so one that broke off has none.
check_built() {
  [ -f "$1/dist/src/main.js" ] || fail "this checkout is not built: in $1 run \`npm ci && npm run build\`"
  [ -f "$1/dist/.built" ] || fail "the build has broken off: in $1 run \`npm ci && npm run build\` and look at its errors"
  [ -z "$(find "$1/src" "$1/migrations" "$1/package.json" "$1/config/bounce-rules.json" "$1/config/operators.json" -newer "$1/dist/.built" -print 2>/dev/null)" ] ||
    fail "the build is older than its sources: in $1 run \`npm run build\`"
  [ -f "$1/node_modules/sqlite3/build/Release/node_sqlite3.node" ] || fail "packages are missing: in $1 run \`npm ci\`"
  # After `git pull` without `npm ci` they are there, but those of the version before.
  wrong=$(cd "$1" && "${node:-node}" -e '
    const fs = require("node:fs");
    const { packages } = JSON.parse(fs.readFileSync("package-lock.json", "utf8"));
    for (const [place, { version, dev, devOptional, optional }] of Object.entries(packages)) {
      if (place === "" || dev || devOptional) continue;
      const file = `${place}/package.json`;
      const found = fs.existsSync(file) ? JSON.parse(fs.readFileSync(file, "utf8")).version : undefined;
      if (found !== version && !(optional && found === undefined)) console.log(place.slice(place.lastIndexOf("node_modules/") + 13));
    }
  ' | head -n 3 | paste -s -d ' ' -) || fail "package-lock.json cannot be read in $1"
  [ -z "$wrong" ] || fail "packages are not those of package-lock.json ($wrong): in $1 run \`npm ci && npm run build\`"
}
