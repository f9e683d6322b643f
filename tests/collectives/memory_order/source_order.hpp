// source_order(): the memory order of a statement of the production code, read from its source, so that a
// protocol that is tried here has the orders that it really has.
#pragma once

#include <atomic>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace ddprun {
namespace memory_order_test {

// Place says where a statement is: the first behind `after` in the file that begins so.
struct Place {
    const char* file;
    const char* after;
    const char* statement;
};

inline std::memory_order order_named(const std::string& text) {
    if (text == "relaxed") return std::memory_order_relaxed;
    if (text == "acquire") return std::memory_order_acquire;
    if (text == "release") return std::memory_order_release;
    if (text == "acq_rel") return std::memory_order_acq_rel;
    if (text == "seq_cst") return std::memory_order_seq_cst;
    throw std::runtime_error("no memory order: " + text);
}

inline std::memory_order source_order(const Place& place) {
    std::ifstream file(std::string(DDPRUN_SOURCES) + "/" + place.file);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::size_t after = text.find(place.after);
    const std::size_t begin = after == std::string::npos ? after : text.find(place.statement, after);
    const std::string where = std::string(place.file) + ": " + place.after + " … " + place.statement;
    if (begin == std::string::npos)
        throw std::runtime_error("the protocol has changed, nothing is at " + where);
    // To the end of the call.
    std::size_t end = begin + std::string(place.statement).size();
    for (int open = 1; open > 0 && end < text.size(); ++end)
        open += text[end] == '(' ? 1 : text[end] == ')' ? -1 : 0;
    const std::string call = text.substr(begin, end - begin);
    constexpr char kName[] = "memory_order_";
    const std::size_t name = call.find(kName);
    if (name == std::string::npos) return std::memory_order_seq_cst;
    const std::size_t first = name + sizeof(kName) - 1;
    return order_named(
        call.substr(first, call.find_first_not_of("abcdefghijklmnopqrstuvwxyz_", first) - first));
}

}  // namespace memory_order_test
}  // namespace ddprun
