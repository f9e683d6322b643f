// masked_text() masks secrets in whatever is stored or shown, by the forms that tell that a value is secret.
// Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun {
inline namespace launch {

// kNotShown stands in place of a secret.
inline constexpr std::string_view kNotShown = "(not shown)";

// Returns the text without
// - the values of secret names (is_secret_name) in it: NAME=value, NAME: value, --name value, also in quotes,
//   in JSON, in lists, in headers, in connection strings and in addresses,
// - the passwords, and the tokens in place of a user, of addresses (scheme://user:password@host) and of -u
//   user:password,
// - tokens and private keys that their beginnings tell.
// A text without secrets stays as it is, and so does one that is masked already. The cost grows with the
// text's length.
std::string masked_text(std::string_view text);

// Returns the same for the words of a command, where one may be the name and the next its value. A value that
// begins with a word reaches to that word's end, so that blanks within hide nothing. Where the value of
// --env has no equals sign, all behind the name is masked.
std::vector<std::string> masked_words(std::vector<std::string> words);

}  // namespace launch
}  // namespace ddprun
