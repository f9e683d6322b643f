#include "launcher/plan/wrap.hpp"

namespace ddprun::inline launch {
namespace {

std::string expanded(const std::string& word, const WrapPlace& place) {
    std::string text;
    for (std::size_t i = 0; i < word.size(); ++i) {
        const char macro = word[i] == '%' && i + 1 < word.size() ? word[i + 1] : '\0';
        switch (macro) {
            case 'r': text += std::to_string(place.rank); break;
            case 'l': text += std::to_string(place.local_rank); break;
            case 'h': text += place.host; break;
            case '%': text += '%'; break;
            default: text += word[i]; continue;
        }
        ++i;
    }
    return text;
}

}  // namespace

std::variant<Wrap, std::string> parse_wrap(std::string_view value) {
    return parse_rank_command("--wrap", value, "'0:gdb --args' or '*:nsys profile -o r%r'");
}

std::vector<std::string> wrapped_argv(const std::vector<Wrap>& wraps, std::vector<std::string> argv,
                                      const WrapPlace& place) {
    std::vector<std::string> front;
    for (const Wrap& wrap : wraps) {
        if (!wrap.names(place.rank, place.local_rank)) continue;
        for (const std::string& word : wrap.words) front.push_back(expanded(word, place));
    }
    argv.insert(argv.begin(), front.begin(), front.end());
    return argv;
}

}  // namespace ddprun::inline launch
