// Readers of what comes piece by piece, for text_fuzz.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "launcher/features/watchdog.hpp"
#include "launcher/output/output_lines.hpp"
#include "rendezvous/job/number_limits.hpp"
#include "tests/launcher/text_checks.hpp"

namespace ddprun {

// However the output is cut, the same lines end.
inline void split_lines(Text text) {
    const auto shown_in = [text](std::size_t piece) {
        LineSplitter splitter;
        LastLines last;
        std::string all;
        for (Text rest = text; !rest.empty();) {
            const Text next = rest.substr(0, piece);
            rest.remove_prefix(next.size());
            splitter.push(next, [&](Text block) { all += block, last.add(block); });
        }
        all += splitter.take_rest();
        std::string screen;
        ConsoleText console;
        console.add(screen, 0, "[0] ", all);
        console.end_line(screen);
        for (const std::string& line : last.lines()) all += line;
        return all + screen;
    };
    must(shown_in(1) == shown_in(text.size() + 1), "lines depend on how they were cut");
}

// However the pipe's bytes come, the same timers are set.
inline void read_timers(Text text) {
    const auto over_in = [text](std::size_t piece) {
        TimerTable table;
        TimerLines lines;
        for (Text rest = text; !rest.empty(); rest.remove_prefix(std::min(piece, rest.size()))) {
            lines.push(rest.substr(0, piece), [&table](Text line) {
                const auto parsed = parse_timer_request(line);
                const auto* request = value_of(parsed);
                if (request == nullptr) return;
                must(request->pid > 0 && request->signal <= kMaxSignal,
                     "a timer of no process, or no signal");
                if (request->is_release()) return table.release(request->pid, request->scope);
                table.set(*request, 1, {}, 1e9);
            });
        }
        auto expired = table.take_expired(TimerTable::TimePoint() + kLongestTimer);
        pid_t signalled = 0;
        for (const ExpiredTimer& timer : expired) {
            must(is_harmless(to_text(timer)), "a timer that cannot be shown");
            must(timer.pid != signalled, "a timer of a process that was sent its signal");
            if (timer.signal > 0) signalled = timer.pid;
        }
        return expired;
    };
    must(over_in(1) == over_in(text.size() + 1), "timers depend on how their lines were cut");
}

}  // namespace ddprun
