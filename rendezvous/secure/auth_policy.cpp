#include "rendezvous/secure/auth_policy.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace ddprun::inline job {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view without_blanks(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(kBlanks);
    if (begin == text.npos) return {};
    return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

}  // namespace

const std::string kNoSecretAdvice =
    "no secret: whoever reaches this node's port can take part in the job; ddprun --make-secret makes one "
    "for all nodes "
    "that share this home folder, --auth off is content without";

std::variant<std::optional<Auth>, std::string> parse_site_auth(std::string_view text) {
    std::optional<Auth> auth;
    for (int number = 1; !text.empty(); ++number) {
        const std::string_view whole = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(whole.size() + 1, text.size()));
        const std::string_view line = without_blanks(whole.substr(0, whole.find('#')));
        if (line.empty()) continue;
        const std::size_t equals = line.find('=');
        std::string_view value = equals == line.npos ? "" : without_blanks(line.substr(equals + 1));
        if (value.size() >= 2 && value.front() == '"' && value.back() == '"')
            value = value.substr(1, value.size() - 2);
        if (without_blanks(line.substr(0, equals)) != "auth" || (value != "auto" && value != "required"))
            return fmt::format("{}, line {}: must be auth = required or auth = auto", kSiteFile, number);
        auth = value == "required" ? Auth::required : Auth::automatic;
    }
    return auth;
}

std::variant<Auth, std::string> agree_on_auth(Auth user, std::optional<Auth> site) {
    if (site != Auth::required) return user;
    if (user == Auth::off)
        return fmt::format(
            "--auth off: {} says auth = required; leave the option out, and give a secret "
            "(ddprun --make-secret makes one)",
            kSiteFile);
    return Auth::required;
}

std::variant<Unprotected, std::string> without_secret(Auth auth, int nnodes, bool is_open) {
    if (nnodes == 1 || auth == Auth::off) return Unprotected::nothing;
    if (auth == Auth::required)
        return "--auth required: no secret is known here; ddprun --make-secret makes one, --secret-file or "
               "DDPRUN_SECRET "
               "gives it to a node";
    return is_open ? Unprotected::advice : Unprotected::nothing;
}

bool wants_sealed_store(Auth auth, bool is_given) {
    return auth == Auth::required || (auth == Auth::automatic && is_given);
}

}  // namespace ddprun::inline job
