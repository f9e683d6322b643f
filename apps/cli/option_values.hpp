// A Grammar is for option values that more than one program or option has: text in, value out. Pure.
//
// A grammar is a function from the text to the value that throws BadValue for any other text. A parser that
// answers with an optional becomes a grammar by parsed_by.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace ddprun {
inline namespace app {

// UsageError: bad input; what() is one line that names the flag and the value. main prints it and ends with
// kExitUsage.
class UsageError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// BadValue is thrown for a text that is no value: what() goes behind the flag and the text ("must be auto or
// any").
class BadValue : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

template <class Value>
using Grammar = std::function<Value(const std::string&)>;

// Makes a grammar of `parse`, which returns an optional; `wanted` says what it takes.
template <class Parse>
auto parsed_by(Parse parse, std::string wanted) {
    return [parse, wanted = std::move(wanted)](const std::string& text) {
        auto value = parse(text);
        if (!value) throw BadValue(wanted);
        return *std::move(value);
    };
}

// Takes the value out of a parser's result, or throws the text that says why there is none.
template <class Error, class Value>
Value value_or_throw(std::variant<Value, std::string> parsed) {
    if (const auto* why = std::get_if<std::string>(&parsed)) throw Error(*why);
    return std::get<Value>(std::move(parsed));
}

// Returns the text itself.
std::string any_text(const std::string& text);

// Returns a number's text as Python's int() takes it: without white space around it, and without a plus
// before its digits.
std::string number_text(const std::string& text);

// Makes a setter that passes number_text() of a text on to `set`.
std::function<void(const std::string&)> of_number(std::function<void(const std::string&)> set);

// Takes a whole number from `low` to `high`.
Grammar<int> number(int low, int high);

// Checks that the text is a number that is not negative, 0.1 or 5; returns the text itself.
std::string decimal_text(const std::string& text);

// Takes 8, 32K, 1M, 2G (powers of 1024), at least `low`.
Grammar<std::uint64_t> byte_size(std::uint64_t low);

// Takes 60, 60s, 250ms, 5m, 1h, 2d.
std::chrono::milliseconds duration_of(const std::string& text);

// Takes TERM, SIGTERM, 15.
int signal_of(const std::string& text);

// Reads what a flag is set to: 1, 0, true, false, on, off, yes, no, or another whole number (0: false).
bool yes_or_no(const std::string& text);

// Returns the path with the home folder in place of `~` at its beginning, and of `~/` behind `=` or `:` in a
// list that has paths in it. Throws BadValue for the home of another user, `~ann/x`, and where there is no
// home.
std::string at_home(const std::string& path, const std::string& home);

// Returns the parts between commas, without the blanks around them.
std::vector<std::string> comma_separated(const std::string& text);

// Returns "; did you mean CANDIDATE?", for the end of an error, if a candidate is near enough to `word`.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates,
                         std::string otherwise = "");

// Returns "a, b or c".
std::string alternatives(const std::vector<std::string>& names);

// Takes one of the names, each with its value.
template <class Value>
Grammar<Value> one_of(std::vector<std::pair<std::string, Value>> values) {
    return [values = std::move(values)](const std::string& text) {
        std::vector<std::string> names;
        for (const auto& [name, value] : values) {
            if (name == text) return value;
            names.push_back(name);
        }
        throw BadValue("must be " + alternatives(names));
    };
}

}  // namespace app
}  // namespace ddprun
