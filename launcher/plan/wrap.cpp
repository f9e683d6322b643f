#include "launcher/plan/wrap.hpp"

#include "launcher/plan/shell_words.hpp"

namespace ddprun {
namespace {

constexpr std::string_view kLocal = "local=";

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

std::string refusal(std::string_view value, const std::string& why) {
    return "--wrap '" + std::string(value) + "': " + why;
}

}  // namespace

std::variant<Wrap, std::string> parse_wrap(std::string_view value) {
    const auto colon = value.find(':');
    if (colon == std::string_view::npos)
        return refusal(value,
                       "RANKS:COMMAND is expected, for example '0:gdb --args' or '*:nsys profile -o r%r'");
    Wrap wrap;
    std::string_view ranks = value.substr(0, colon);
    wrap.local = ranks.starts_with(kLocal);
    if (wrap.local) ranks.remove_prefix(kLocal.size());
    auto set = parse_rank_set(ranks);
    if (const auto* wrong = std::get_if<std::string>(&set)) return refusal(value, *wrong);
    wrap.ranks = std::get<RankSet>(std::move(set));
    auto words = split_shell_words(value.substr(colon + 1));
    if (const auto* wrong = std::get_if<std::string>(&words)) return refusal(value, *wrong);
    wrap.words = std::get<std::vector<std::string>>(std::move(words));
    if (wrap.words.empty() || wrap.words.front().empty())
        return refusal(value, "no command follows the ranks");
    return wrap;
}

std::vector<std::string> wrapped_argv(const std::vector<Wrap>& wraps, std::vector<std::string> argv,
                                      const WrapPlace& place) {
    std::vector<std::string> front;
    for (const Wrap& wrap : wraps) {
        if (!wrap.ranks.contains(wrap.local ? place.local_rank : place.rank)) continue;
        for (const std::string& word : wrap.words) front.push_back(expanded(word, place));
    }
    argv.insert(argv.begin(), front.begin(), front.end());
    return argv;
}

}  // namespace ddprun
