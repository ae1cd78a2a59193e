# Completion of agent-dev for fish: agent-dev completion fish >~/.config/fish/completions/agent-dev.fish

function __agent_dev_complete
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    set -l lines (command agent-dev __complete $typed[2..-1] "$current" 2>/dev/null)
    set -l prefix (string match -r -- '^--[^=]*=' $current)
    set -l text (string replace -r -- '^--[^=]*=' '' $current)
    switch "$lines[1]"
        case files
            printf '%s\n' "$prefix"(__fish_complete_path "$text")
        case directories
            printf '%s\n' "$prefix"(__fish_complete_directories "$text" '')
        case commands
            __fish_complete_command
    end
    set -q lines[2]; and printf '%s\n' $lines[2..-1]
end

complete -c agent-dev -f -a '(__agent_dev_complete)'
