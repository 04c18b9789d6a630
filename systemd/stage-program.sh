# Copies what runs out of a built checkout, with the packages that it needs: for install.sh and pack-offline.sh, which read this
# file with `.`.
#
#   stage_program SOURCE STAGE SCRATCH   makes STAGE; SCRATCH is a folder for a list
stage_program() {
  mkdir -p "$2/src"
  cp -R "$1/src/bin" "$2/src/bin"
  rm -f "$2/src/bin/ready.mjs"
  cp -R "$1/dist" "$1/docs" "$1/systemd" "$2/"
  rm -f "$2/dist/.built" "$2/dist/.tsbuildinfo"
  mkdir "$2/config"
  cp -R "$1/config/." "$2/config"
  rm -f "$2/config/eslint.config.js" "$2/config/knip.json"
  cp "$1/package.json" "$1/package-lock.json" "$1/README.md" "$1/CHANGELOG.md" "$1/LICENSE" "$2/"
  # The packages of the lockfile without those for development, as they were installed here.
  (cd "$1" && "${node:-node}" -e '
    const fs = require("node:fs");
    const { packages } = JSON.parse(fs.readFileSync("package-lock.json", "utf8"));
    for (const [place, { dev, devOptional }] of Object.entries(packages))
      if (/^node_modules\/(@[^/]+\/)?[^/]+$/.test(place) && !dev && !devOptional && fs.existsSync(place)) console.log(place);
  ') >"$3/packages"
  # Of the compiled package the compiled file is enough.
  sqlite=node_modules/sqlite3
  tar -C "$1" --exclude="$sqlite/deps" --exclude="$sqlite/build/Release/obj*" --exclude="$sqlite/build/Release/.deps" --exclude="$sqlite/build/Release/*.a" \
    -cf - -T "$3/packages" | tar -C "$2" -xf -
}
