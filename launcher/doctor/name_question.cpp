#include <unistd.h>

#include "launcher/doctor/questions.hpp"
#include "launcher/harmless_text.hpp"
#include "rendezvous/net/local_addresses.hpp"

namespace ddprun {
namespace {

// In front of what the resolver says in place of addresses.
constexpr std::string_view kNoAddress = "no ";

}  // namespace

std::function<void()> ask_name(const std::string& host) {
    return [host] {
        std::string text;
        const auto found = resolve_host(host);
        if (const auto* why = std::get_if<std::string>(&found)) {
            text = std::string(kNoAddress) + *why;
        } else {
            for (const std::string& address : std::get<std::vector<std::string>>(found))
                text += address + "\n";
        }
        [[maybe_unused]] const ssize_t sent = ::write(STDOUT_FILENO, text.data(), text.size());
    };
}

NameFacts name_facts(const BoundedChild::Answer& answer) {
    NameFacts facts;
    facts.end = answer.end;
    facts.why = "the process that asked has died";
    if (answer.bytes.starts_with(kNoAddress)) {
        facts.why = answer.bytes.substr(kNoAddress.size());
        return facts;
    }
    for (const std::string_view line : lines_of(answer.bytes)) facts.addresses.emplace_back(line);
    return facts;
}

}  // namespace ddprun
