#include <unistd.h>

#include <algorithm>

#include "launcher/doctor/questions.hpp"
#include "rendezvous/net/local_addresses.hpp"

namespace ddprun::inline launch {
namespace {

// In front of what the resolver says in place of addresses.
constexpr std::string_view kNoAddress = "no ";

// Addresses with blanks between, or why there are none.
std::string resolved_line(const std::string& host) {
    const auto found = resolve_host(host);
    if (const auto* why = std::get_if<std::string>(&found)) return std::string(kNoAddress) + *why + "\n";
    std::string line;
    for (const std::string& address : std::get<std::vector<std::string>>(found))
        line += (line.empty() ? "" : " ") + address;
    return line + "\n";
}

NameFacts facts_of_line(std::string_view line) {
    NameFacts facts;
    if (line.starts_with(kNoAddress)) {
        facts.why = line.substr(kNoAddress.size());
        return facts;
    }
    while (!line.empty()) {
        const auto end = std::min(line.find(' '), line.size());
        facts.addresses.emplace_back(line.substr(0, end));
        line.remove_prefix(std::min(end + 1, line.size()));
    }
    return facts;
}

}  // namespace

std::function<void()> ask_name(const std::string& host) { return ask_names({host}); }

NameFacts name_facts(const BoundedChild::Answer& answer) { return names_facts(1, answer).front(); }

std::function<void()> ask_names(const std::vector<std::string>& hosts) {
    return [hosts] {
        for (const std::string& host : hosts) {
            const std::string line = resolved_line(host);
            [[maybe_unused]] const ssize_t sent = ::write(STDOUT_FILENO, line.data(), line.size());
        }
    };
}

std::vector<NameFacts> names_facts(std::size_t hosts, const BoundedChild::Answer& answer) {
    std::vector<NameFacts> all;
    std::string_view bytes = answer.bytes;
    while (all.size() < hosts) {
        const auto end = bytes.find('\n');
        if (end == std::string_view::npos) {
            all.push_back({answer.end, {}, "the process that asked has died"});
            continue;
        }
        all.push_back(facts_of_line(bytes.substr(0, end)));
        bytes.remove_prefix(end + 1);
    }
    return all;
}

}  // namespace ddprun::inline launch
