# SPDX-License-Identifier: Apache-2.0 OR MIT
# A candidate that ends in / is a folder to go on in, so no space follows. Without a candidate bash completes file names.
_diolkos_lab() {
    local IFS=$'\n' word=${COMP_WORDS[COMP_CWORD]} candidate
    COMPREPLY=()
    while read -r candidate; do
        [[ $candidate ]] || continue
        [[ $candidate == *[/=] ]] && compopt -o nospace
        # What the shell would take for more than a name is quoted, but for the ~ of a home and within quotes.
        [[ $word == [\"\']* ]] || printf -v candidate %q "$candidate"
        [[ $candidate == '\~'* ]] && candidate=${candidate:1}
        COMPREPLY+=("$candidate")
    done < <(COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _DIOLKOS_LAB_COMPLETE=complete_bash "${1/#\~/$HOME}" 2>/dev/null)
}
complete -o bashdefault -o default -F _diolkos_lab diolkos-lab
