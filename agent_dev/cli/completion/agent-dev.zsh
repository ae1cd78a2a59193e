#compdef agent-dev
# Completion of agent-dev for zsh: source <(agent-dev completion zsh), after compinit; or as the file _agent-dev in $fpath.

_agent_dev() {
    local line word about lister
    local -a lines described unfinished
    lines=("${(@f)$(command agent-dev __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    for line in "${(@)lines[2,-1]}"; do
        word=${line%%$'\t'*}
        about=${line#*$'\t'}
        if [[ $word == *= ]]; then
            unfinished+=("$word")
        else
            described+=("$word${about:+:$about}")
        fi
    done
    (( $#unfinished )) && compadd -S '' -- "${(@)unfinished}"
    (( $#described )) && _describe -t words agent-dev described
    case ${lines[1]-} in
        files) lister=_files ;;
        directories) lister=_directories ;;
        commands) lister=_command_names ;;
        *) return ;;
    esac
    [[ $PREFIX == --*=* ]] && compset -P '*='
    $lister
}

if [[ ${zsh_eval_context[-1]-} == loadautofunc ]]; then
    _agent_dev "$@"
else
    compdef _agent_dev agent-dev
fi
