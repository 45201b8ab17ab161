#!/usr/bin/env bash
# Installs Debian's Chromium and Firefox ESR if they are missing or too old. Names given as arguments limit it to those.
# CHROMIUM and FIREFOX may name browsers of your own; those are taken as they are.
set -euo pipefail

# The oldest versions that the tests were run with; Playwright's Firefox channel needs WebDriver BiDi of at least this age.
MIN_CHROMIUM=140
MIN_FIREFOX=153

major_version() { "$1" --version 2>/dev/null | grep -oE '[0-9]+' | head -n 1 || true; }

is_recent() { # path, oldest major version
  [ -x "$1" ] && [ "$(major_version "$1")" -ge "$2" ] 2>/dev/null
}

wanted=("$@")
[ ${#wanted[@]} -gt 0 ] || wanted=(chromium firefox)

missing=()
for browser in "${wanted[@]}"; do
  case "$browser" in
    chromium) is_recent "${CHROMIUM:-/usr/bin/chromium}" "$MIN_CHROMIUM" || missing+=(chromium) ;;
    firefox) is_recent "${FIREFOX:-/usr/bin/firefox-esr}" "$MIN_FIREFOX" || missing+=(firefox-esr) ;;
    *) echo "unknown browser '$browser': expected chromium or firefox" >&2; exit 2 ;;
  esac
done
[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
  echo "Missing: ${missing[*]}. Install them, and set CHROMIUM and FIREFOX to their paths if they are not in /usr/bin." >&2
  exit 1
fi
as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}"
