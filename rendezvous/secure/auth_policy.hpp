// AuthPolicy: whether the agents of a job must prove that they have its secret. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace ddprun::inline job {

enum class Auth {
    automatic,  // where a secret is known
    required,   // or else no job of several nodes
    off,        // also where one is known
};

// What the site asks for, which is all that is in its file so far: one `NAME = VALUE` a line, # begins a comment. A text says
// what is wrong, with the line's number.
inline constexpr const char* kSiteFile = "/etc/ddprun.conf";
std::variant<std::optional<Auth>, std::string> parse_site_auth(std::string_view text);

// The site's word may only make the user's stricter. A text: they contradict each other.
std::variant<Auth, std::string> agree_on_auth(Auth user, std::optional<Auth> site);

// What no secret means for this node. `is_open`: it may host the job where other machines reach it. A text: the job cannot be started so.
enum class Unprotected { nothing, advice };
std::variant<Unprotected, std::string> without_secret(Auth auth, int nnodes, bool is_open);

// Whether the workers' way to the store is to be sealed where nobody says how they reach it. That hides node 0's address from
// them, so it has to be wanted: `is_given`: the user has given a secret himself, and no starter one of its own.
bool wants_sealed_store(Auth auth, bool is_given);

// The line of node 0 where several nodes meet and anybody could.
extern const std::string kNoSecretAdvice;

}  // namespace ddprun::inline job
