// An option is one row: what it is called, what --help says, its default, whose value counts, which variables
// set it, and where its value goes. The rows of a program become CLI11's options (which cut the command line
// into words, and from which --help and the documentation are printed, see printed.hpp) and then take their
// values, each from the strongest of the places that name it: the command line, DDPRUN_<NAME>, the row's own
// variables, the file of --config.
#pragma once

#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/cli/option_values.hpp"
#include "launcher/agent/option_origin.hpp"
#include "launcher/told_file.hpp"
#include "rendezvous/worker/worker_env.hpp"

namespace CLI {
class App;
}

namespace ddprun {
inline namespace app {

// Marks of an option (OptionRow::marks).
enum OptionMark : unsigned {
    kRepeated = 2,       // every occurrence counts, not only the last
    kTorchruns = 4,      // torchrun has it, too, and its variable PET_<NAME> sets it
    kLikeTorchruns = 8,  // torchrun has it, but no variable for it
    // Nodes of a job may say different things. Then each one's own value counts for itself, unless:
    kNode0 = 16,      // that of node 0 counts for all
    kAllNodes = 32,   // it has to be the same on all nodes
    kPath = 64,       // it has places in the file system: at_home()
    kTemplate = 128,  // its `${rank}` and the like are filled in by the program, or by a shell that it starts
    kOwnMark = 1024,  // the first of a program's own marks
};

// A ShownValue is a value of the launch that --explain shows, because this option decides it.
struct ShownValue {
    std::string name;                    // "join timeout"
    std::function<std::string()> value;  // its text is empty where this launch has none
    // The options that have a say in it, by long name, the strongest first, with commas between; empty: this
    // one.
    std::string by = {};
};

// Makes a list of one value, for OptionRow::shown.
inline std::vector<ShownValue> shows(std::string name, std::function<std::string()> value,
                                     std::string by = {}) {
    return {{std::move(name), std::move(value), std::move(by)}};
}
// The value is text(of), when it is asked for.
template <class T, class Text>
std::function<std::string()> of(const T& value, Text text) {
    return [&value, text] { return text(value); };
}

struct OptionRow {
    std::string names;  // "--tee,-t": errors call it by the first; without dashes: a word that must be there
    std::string metavar;  // empty: a flag; in brackets: the value may be left out
    // The first line is what lists of options show; what follows a line break is for whoever asks about this
    // option.
    std::string help;
    std::function<void(const std::string&)> set;  // throws BadValue, or UsageError with a text of its own
    unsigned marks = 0;
    std::string fallback =
        {};  // what counts where nobody says anything, for people; empty: nothing worth a word
    std::string not_with_hosts = {};  // why it cannot be given together with a list of hosts; empty: it can
    std::vector<ShownValue> shown = {};
    std::string other_variable = {};  // a further variable that sets it, weaker than torchrun's

    bool has(unsigned mark) const { return (marks & mark) != 0; }
};

struct OptionGroup {
    std::string heading;  // "": CLI11's own
    std::vector<OptionRow> rows;
};

// Makes a list of what is moved out of the array. A list in braces would copy each row, with all its texts.
template <class T, std::size_t kCount>
std::vector<T> moved_list(T (&array)[kCount]) {
    return {std::make_move_iterator(std::begin(array)), std::make_move_iterator(std::end(array))};
}

// `target = grammar(text)`, for OptionRow::set.
template <class Target, class Parse>
std::function<void(const std::string&)> into(Target& target, Parse grammar) {
    return [&target, grammar = std::move(grammar)](const std::string& text) { target = grammar(text); };
}
inline std::function<void(const std::string&)> into(bool& target) { return into(target, yes_or_no); }
inline std::function<void(const std::string&)> into(std::string& target) { return into(target, any_text); }

// Return what errors call it, "--tee"; its first long name, "--tee"; and its own variable, "DDPRUN_TEE".
std::string first_name(const OptionRow& row);
std::string long_name(const OptionRow& row);
std::string long_name(std::string_view names);  // as OptionRow has them
std::string variable_of(const OptionRow& row);
// The variables that set it besides, the stronger first, with ", " between: "PET_TEE".
std::string other_variables_of(const OptionRow& row);

// The option of the configuration file itself, for a program that has one.
OptionRow config_row();

// TypedNames tell for an option's long name what the user wrote for it: "--node_rank", or an abbreviation.
using TypedNames = std::map<std::string, std::string>;

// Adds the rows to `app`.
void add_rows(CLI::App& app, const std::vector<OptionGroup>& groups);

// Adds only those rows that were typed, or all where what is to be printed has them all; after
// add_standard_options(). CLI11 compares each option with each other one, which was half of what ddprun
// computed before its first worker.
void add_typed_rows(CLI::App& app, const std::vector<OptionGroup>& groups, const TypedNames& typed);

// Sets the rows to what the command line of `app`, parsed, gives. Throws UsageError for a value.
void take_values(const CLI::App& app, const std::vector<OptionGroup>& groups);

// A ToldValue is what one source says of an option: for one that may be repeated all of its texts.
struct ToldValue {
    std::vector<std::string> texts;
    OptionOrigin origin;
};

// A ToldOption has all sources that say something of an option, the strongest first, which is the one that
// counts.
struct ToldOption {
    std::string name;  // long_name()
    std::vector<ToldValue> told;
};

// Does the same with all sources, and reads the file that --config names. Errors call what the command line
// names as it was typed. Returns what was said, in the order of the rows; options of which nobody says
// anything are not in it, nor those of `dropped` (by long name), whatever is said of them.
using DroppedOptions = std::map<std::string, std::string>;
std::vector<ToldOption> take_values(const CLI::App& app, const std::vector<OptionGroup>& groups,
                                    const Environment& environment, const TypedNames& typed,
                                    const DroppedOptions& dropped = {}, const ToldFiles& files = {});

// Returns where the values that count are from.
OptionOrigins origins_of(const std::vector<ToldOption>& options);

// Writes an error that begins with an option's long name so that it has that as it was typed, and the place
// of the value at its end.
std::string as_said(const std::string& message, const TypedNames& typed, const OptionOrigins& origins);

// The message with the place of the value at its end, unless it has that.
std::string with_place(const std::string& message, const OptionOrigin& origin);

// " (from PET_NNODES)": for the end of an error; empty where the user has the value before his eyes.
std::string origin_text(const OptionOrigin& origin);

}  // namespace app
}  // namespace ddprun
