#include "launcher/plan/cpu_list.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "launcher/list_text.hpp"
#include "rendezvous/system/whole_number.hpp"

namespace ddprun::inline launch {
namespace {

std::optional<int> parse_cpu(std::string_view text) { return whole_number<int>(text, 0, kMaxCpus - 1); }

}  // namespace

std::optional<CpuList> parse_cpu_list(std::string_view text) {
    while (text.ends_with('\n')) text.remove_suffix(1);
    CpuList cpus;
    if (trimmed(text).empty()) return cpus;
    for (;;) {
        const auto comma = text.find(',');
        const std::string_view part = trimmed(text.substr(0, comma));
        const auto dash = part.find('-');
        const auto first = parse_cpu(part.substr(0, dash));
        const auto last = dash == std::string_view::npos ? first : parse_cpu(part.substr(dash + 1));
        if (!first || !last || *last < *first) return std::nullopt;
        for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
        if (comma == std::string_view::npos) break;
        text.remove_prefix(comma + 1);
    }
    std::sort(cpus.begin(), cpus.end());
    cpus.erase(std::unique(cpus.begin(), cpus.end()), cpus.end());
    return cpus;
}

std::string cpu_list_text(const CpuList& cpus) {
    std::string text;
    for (std::size_t i = 0; i < cpus.size(); ++i) {
        const std::size_t first = i;
        while (i + 1 < cpus.size() && cpus[i + 1] == cpus[i] + 1) ++i;
        if (!text.empty()) text += ',';
        text += first == i ? std::to_string(cpus[i]) : fmt::format("{}-{}", cpus[first], cpus[i]);
    }
    return text;
}

CpuList common_cpus(const CpuList& one, const CpuList& other) {
    CpuList both;
    std::set_intersection(one.begin(), one.end(), other.begin(), other.end(), std::back_inserter(both));
    return both;
}

}  // namespace ddprun::inline launch
