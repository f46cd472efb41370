# SPDX-License-Identifier: Apache-2.0 OR MIT
# Without a candidate fish completes file names.
function __diolkos_lab_candidates
    set -l before (commandline -opc)
    set -l words (string escape -- $before) (commandline -ct)
    set -lx COMP_WORDS (string join \n -- $words | string collect)
    set -lx COMP_CWORD (count $before)
    set -lx _DIOLKOS_LAB_COMPLETE complete_bash
    set -l found ($before[1] 2>/dev/null)
    if test -n "$found"
        string join \n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete --command diolkos-lab --no-files --arguments '(__diolkos_lab_candidates)'
