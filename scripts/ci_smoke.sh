#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# For the CI of an Ascend host: finds CANN, prints what is there, runs the smoke cases, leaves a JUnit file.
#
#   scripts/ci_smoke.sh [JUNIT_FILE] [OPTION OF aclnn-kvcache smoke ...]
#
# JUNIT_FILE is smoke-junit.xml by default. Options such as "--backend simulator" or "--device 1" are passed on. PYTHON
# names the interpreter (python3), SMOKE_TIMEOUT the seconds that the cases may take (300). The exit code is that of
# smoke: 0 good, 1 results differ, 2 wrong usage, 3 no such backend or device, 4 device or runtime failure.
set -euo pipefail

junit=smoke-junit.xml
if [ "$#" -gt 0 ] && [ "${1#-}" = "$1" ]; then
  junit=$1
  shift
fi
python=${PYTHON:-python3}
limit=${SMOKE_TIMEOUT:-300}
case $limit in
  *[!0-9]*)
    echo "SMOKE_TIMEOUT must be whole seconds, got '$limit'" >&2
    exit 2
    ;;
esac
if ! command -v "$python" >/dev/null; then
  echo "PYTHON names no command: '$python'" >&2
  exit 2
fi

say() { printf '%-12s%s\n' "$1" "${2:-none}"; }

first_line() {  # KEY FILE: what follows KEY= in the first of its lines, if the file is there
  if [ -r "$2" ]; then
    sed -n "/^$1=/{s/^$1=//p;q;}" "$2"
  fi
}

toolkit=
for root in "${ASCEND_HOME_PATH:-}" "${ASCEND_TOOLKIT_HOME:-}" \
  /usr/local/Ascend/cann "${HOME:-}/Ascend/cann" /opt/Ascend/cann \
  /usr/local/Ascend/ascend-toolkit/latest "${HOME:-}/Ascend/ascend-toolkit/latest"; do
  if [ -n "$root" ] && [ -d "$root/lib64" ]; then
    toolkit=$root
    break
  fi
done

source_environment() {  # without arguments: a sourced script would take those of this one for its own
  # It reads variables that may be unset and goes on after commands that fail.
  set +eu +o pipefail
  # shellcheck disable=SC1090
  source "$script"
  set -eu -o pipefail
}

# The older layout keeps the script beside the version's folder.
for script in "$toolkit/set_env.sh" "$toolkit/../set_env.sh"; do
  if [ -n "$toolkit" ] && [ -r "$script" ]; then
    source_environment
    break
  fi
done

driver=$(first_line Driver_Install_Path_Param /etc/ascend_install.info)
driver=${driver:-/usr/local/Ascend}/driver
devices=$(find /dev -maxdepth 1 \( -name 'davinci*' -o -name 'vdavinci*' \) 2>/dev/null | sort | tr '\n' ' ')
# The installed package, not the sources of a checkout that this may be started in: those have no simulator.
command=("$python" -c 'import sys
sys.path[:] = filter(None, sys.path)
from aclnn_kvcache.cli import main
sys.exit(main())')
package=$("${command[@]}" --version 2>&1 | tail -n 1) || true

say host "$(uname -srm)"
say python "$("$python" --version 2>&1), $(command -v "$python" || true)"
say package "$package"
say toolkit "$toolkit"
say CANN "$(first_line Version "$toolkit/share/info/runtime/version.info")"
say driver "$(first_line Version "$driver/version.info")"
say devices "$devices"
say visible "ASCEND_RT_VISIBLE_DEVICES=${ASCEND_RT_VISIBLE_DEVICES:-}"
echo libraries
for name in libascendcl.so libacl_rt.so libnnopbase.so libopapi_transformer.so libopapi.so; do
  if [ -n "$toolkit" ] && [ -e "$toolkit/lib64/$name" ]; then
    say "" "$(readlink -f "$toolkit/lib64/$name")"
  fi
done
echo

# Smoke ends itself at its limit and gives the device back; the outer limit is for when even that hangs.
code=0
mkdir -p "$(dirname "$junit")"
rm -f "$junit"
timeout --kill-after=30 "$((limit + 60))" \
  "${command[@]}" smoke --timeout "$limit" --junit "$junit" "$@" || code=$?
if [ "$code" -eq 124 ] || [ "$code" -eq 137 ]; then
  echo "smoke did not end within $((limit + 60)) s and was killed" >&2
  code=4
fi
if [ ! -s "$junit" ]; then
  cat >"$junit" <<XML
<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite name="aclnn-kvcache" tests="1" errors="1"><testcase classname="aclnn-kvcache" name="smoke">
<error message="smoke wrote no report; exit code $code"/></testcase></testsuite></testsuites>
XML
fi
say report "$junit"
exit "$code"
