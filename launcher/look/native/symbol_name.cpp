#include "launcher/look/native/symbol_name.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <string_view>

namespace ddprun {
inline namespace launch {
namespace {

constexpr std::size_t kMaxSymbol = 4096;  // a longer one is shown as it is

std::string demangled(const std::string& symbol) {
    if (!symbol.starts_with("_Z") || symbol.size() > kMaxSymbol) return symbol;
    int status = 0;
    const std::unique_ptr<char, decltype(&std::free)> text(
        abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status), &std::free);
    return text == nullptr ? symbol : std::string(text.get());
}

}  // namespace

std::string function_name(const std::string& symbol) {
    constexpr std::string_view kAnonymous = "(anonymous namespace)", kOperator = "operator";
    const std::string name = demangled(symbol.substr(0, symbol.find('@')));  // "memcpy@@GLIBC_2.14"
    const std::string_view text = name;
    int depth = 0;
    for (std::size_t place = 0; place < text.size(); ++place) {
        const std::string_view rest = text.substr(place);
        if (rest.starts_with(kAnonymous)) {
            place += kAnonymous.size() - 1;
        } else if (depth == 0 && rest.starts_with(kOperator)) {
            place += kOperator.size() + (rest.substr(kOperator.size()).starts_with("()") ? 1 : 0);
            while (place + 1 < text.size() && text[place + 1] != '(') ++place;
        } else if (rest.front() == '(' && depth == 0) {
            return name.substr(0, place);
        } else if (rest.front() == '<' || rest.front() == '{' || rest.front() == '(') {
            ++depth;
        } else if (rest.front() == '>' || rest.front() == '}' || rest.front() == ')') {
            --depth;
        }
    }
    return name;
}

}  // namespace launch
}  // namespace ddprun
