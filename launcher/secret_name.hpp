// is_secret_name() knows the names of values that may not be shown: the one table of them. Pure.
#pragma once

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>

namespace ddprun {
inline namespace launch {

// is_secret_name says whether the value of a variable or an argument of this name is secret. DB_PASS,
// HF_TOKEN, PGPASSWORD, DATABASE_URL, --api-key and apiKey are such names, in letters of either case. A name
// that ends with FILE, PATH, TYPE or the like says something about a secret, and is not secret itself. Names
// of the tokens and keys of texts (max_tokens, sort_key) are not secret, either.
bool is_secret_name(std::string_view name);

// kLongestName: how many characters of a longer name are looked at, from its end.
inline constexpr std::size_t kLongestName = 199;

// plain_name returns the name in capitals, with _ between its words: API_KEY of --api-key, apiKey and
// Api.Key.
std::string plain_name(std::string_view name);

// TextTable: a table of texts; has_any() and is_among() below ask it.
template <std::size_t size>
using TextTable = std::array<std::string_view, size>;

template <class List, class Holds>
bool has_any(const List& list, const Holds& holds) {
    return std::any_of(list.begin(), list.end(), holds);
}

template <class List>
bool is_among(const List& list, std::string_view word) {
    return std::find(list.begin(), list.end(), word) != list.end();
}

inline bool is_letter_or_digit(char letter) { return std::isalnum(static_cast<unsigned char>(letter)) != 0; }

}  // namespace launch
}  // namespace ddprun
