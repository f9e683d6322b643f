// What is nobody's to see, in whatever is stored or shown: one table of the names of variables and arguments whose values are
// secret, and the forms by which a value is known to be one. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ddprun::inline launch {

// It stands in place of a secret.
inline constexpr std::string_view kNotShown = "(not shown)";

// True if the value of a variable or an argument of this name is secret: DB_PASS, HF_TOKEN, PGPASSWORD, DATABASE_URL, --api-key, in
// letters of either case. A name that ends with FILE, PATH or DIR says where something is, and is none.
bool is_secret_name(std::string_view name);

// Returns the text without the passwords in its addresses (scheme://user:password@host), for what programs print, whose other words mean
// anything. has_address() says whether there are any, of which most texts have none.
bool has_address(std::string_view text);
std::string masked_addresses(std::string_view text);

// Returns the text without the passwords in its addresses, without the values of secret names in it
// (NAME=value, --name value), and without tokens that their beginnings tell.
std::string masked_text(std::string_view text);

// The same of the words of a command, of which one may be the name and the next its value.
std::vector<std::string> masked_words(std::vector<std::string> words);

}  // namespace ddprun::inline launch
