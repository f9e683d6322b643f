#include "launcher/plan/cpu_list.hpp"

#include <algorithm>
#include <iterator>

#include "rendezvous/text/number_text.hpp"
#include "rendezvous/text/split.hpp"

namespace ddprun {
inline namespace launch {

std::optional<CpuList> parse_cpu_list(std::string_view text) {
    while (text.ends_with('\n')) text.remove_suffix(1);
    CpuList cpus;
    if (trimmed(text).empty()) return cpus;
    const auto set = parse_number_set(text, 0, kMaxCpus - 1, Blanks::around_entries);
    const auto* spans = std::get_if<std::vector<NumberSpan>>(&set);
    if (spans == nullptr) return std::nullopt;
    for (const NumberSpan& span : *spans) {
        for (int cpu = span.first; cpu <= span.last; ++cpu) cpus.push_back(cpu);
    }
    std::sort(cpus.begin(), cpus.end());
    cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    return cpus;
}

std::string cpu_list_text(const CpuList& cpus) { return number_set_text(spans_of(cpus)); }

CpuList common_cpus(const CpuList& one, const CpuList& other) {
    CpuList both;
    std::set_intersection(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(both));
    return both;
}

}  // namespace launch
}  // namespace ddprun
