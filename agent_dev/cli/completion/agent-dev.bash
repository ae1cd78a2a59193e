# Completion of agent-dev for bash 4 and newer: source <(agent-dev completion bash)

_agent_dev() {
    local typed=() lines=() i word about
    # By default `=` separates words here (COMP_WORDBREAKS): --net=host is three of them.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((${#typed[@]})) && [[ $word == '=' || ${COMP_WORDS[i - 1]} == '=' ]]; then
            typed[${#typed[@]} - 1]+=$word
        else
            typed+=("$word")
        fi
    done
    mapfile -t lines < <(command agent-dev __complete "${typed[@]}" 2>/dev/null)
    COMPREPLY=()
    for about in "${lines[@]:1}"; do
        word=${about%%$'\t'*}
        if [[ ${typed[-1]} == *=* && $COMP_WORDBREAKS == *=* ]]; then
            word=${word#*=}
        fi
        COMPREPLY+=("$word")
    done
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
    word=${COMP_WORDS[COMP_CWORD]}
    [[ $word == '=' ]] && word=
    case ${lines[0]-}:${#COMPREPLY[@]} in
        files:0) compopt -o default ;;
        directories:0) compopt -o dirnames ;;
        files:*)
            compopt -o filenames # quotes them
            mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$word")
            ;;
        commands:*) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -c -- "$word") ;;
    esac
}
complete -F _agent_dev agent-dev
