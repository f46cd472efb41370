#compdef diolkos-lab
# SPDX-License-Identifier: Apache-2.0 OR MIT
# A candidate that ends in / is a folder to go on in, so no space follows. Without a candidate zsh completes file names.
_diolkos_lab() {
    local -a found further
    found=("${(@f)$(COMP_WORDS="${(F)words}" COMP_CWORD=$((CURRENT - 1)) _DIOLKOS_LAB_COMPLETE=complete_bash ${~words[1]} 2>/dev/null)}")
    found=(${found:#})
    if (( ! $#found )); then
        _files
        return
    fi
    further=(${(M)found:#*[/=]})
    (( $#further )) && compadd -S '' -- $further
    found=(${found:#*[/=]})
    (( $#found )) && compadd -- $found
}
# Sourced, or found in $fpath, where the file is the function.
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _diolkos_lab "$@"
else
    compdef _diolkos_lab diolkos-lab
fi
