// An OptionRow is one option: what it is called, what --help says, its default, which nodes' value counts,
// which variables set it, and where its value goes. The rows of a program become CLI11's options, which cut
// the command line into words, and from which --help and the documentation are printed, see printed.hpp. Then
// they take their values, each from the strongest of the places that name it: the command line,
// DDPRUN_<NAME>, the row's own variables, the file of --config.
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

// OptionMark: marks of an option (OptionRow::marks).
enum OptionMark : unsigned {
    kRepeated = 2,       // every occurrence counts, not only the last
    kTorchruns = 4,      // torchrun has it, too, and its variable PET_<NAME> sets it
    kLikeTorchruns = 8,  // torchrun has it, but no variable for it
    // kNode0, kAllNodes: nodes of a job may say different things. Each node's own value counts for itself,
    // unless one of these marks says otherwise.
    kNode0 = 16,      // the value of node 0 counts for all
    kAllNodes = 32,   // the value has to be the same on all nodes
    kPath = 64,       // the value has places in the file system: at_home()
    kTemplate = 128,  // the program, or a shell that it starts, fills in `${rank}` and the like
    kOwnMark = 1024,  // the first of a program's own marks
};

struct OptionRow {
    std::string names;    // "--tee,-t": errors use the first; without dashes: a word that must be there
    std::string metavar;  // empty: a flag; in brackets: the value may be left out
    // help: the first line is what lists of options show; what follows a line break is for questions about
    // this option.
    std::string help;
    std::function<void(const std::string&)> set;  // throws BadValue, or UsageError with a text of its own
    unsigned marks = 0;
    std::string fallback = {};  // what counts where nothing is said, in words; empty: nothing worth a word
    std::string not_with_hosts = {};  // why it excludes a list of hosts; empty: it does not
    std::string other_variable = {};  // a further variable that sets the option, weaker than torchrun's

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

// Makes `target = grammar(text)`, for OptionRow::set.
template <class Target, class Parse>
std::function<void(const std::string&)> into(Target& target, Parse grammar) {
    return [&target, grammar = std::move(grammar)](const std::string& text) { target = grammar(text); };
}
inline std::function<void(const std::string&)> into(bool& target) { return into(target, yes_or_no); }
inline std::function<void(const std::string&)> into(std::string& target) { return into(target, any_text); }

// Returns what errors call the option, "--tee"; long_name() returns its first long name, "--tee", and
// variable_of() its own variable, "DDPRUN_TEE".
std::string first_name(const OptionRow& row);
std::string long_name(const OptionRow& row);
std::string long_name(std::string_view names);  // as OptionRow has them
std::string variable_of(const OptionRow& row);
// Returns the variables that set the option besides, the stronger first, with ", " between: "PET_TEE".
std::string other_variables_of(const OptionRow& row);

// Returns the option of the configuration file itself, for a program that has one.
OptionRow config_row();

// TypedNames tell for an option's long name what the user wrote for it: "--node_rank", or an abbreviation.
using TypedNames = std::map<std::string, std::string>;

void add_rows(CLI::App& app, const std::vector<OptionGroup>& groups);

// Adds only those rows that were typed, or all where what is to be printed has them all; called after
// add_standard_options(). CLI11 compares each option with each other one, which was half of what ddprun
// computed before its first worker.
void add_typed_rows(CLI::App& app, const std::vector<OptionGroup>& groups, const TypedNames& typed);

// Sets the rows to what the command line of `app`, parsed, gives. Throws UsageError for a value.
void take_values(const CLI::App& app, const std::vector<OptionGroup>& groups);

// A ToldValue is what one source says of an option; for one that may be repeated, all of its texts.
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

// Returns the options that are given, in the order of the rows; reads the file that --config names. Throws
// UsageError.
std::vector<ToldOption> told_options(const CLI::App& app, const std::vector<OptionGroup>& groups,
                                     const Environment& environment, const ToldFiles& files);
// Sets the rows to the values that count. Errors call an option of the command line as it was typed.
void set_rows(const std::vector<OptionGroup>& groups, const std::vector<ToldOption>& told,
              const Environment& environment, const TypedNames& typed);

// Returns where the values that count are from.
OptionOrigins origins_of(const std::vector<ToldOption>& options);

// Returns `message`, which begins with an option's long name, with that name as it was typed and the place of
// the value at its end.
std::string as_said(const std::string& message, const TypedNames& typed, const OptionOrigins& origins);

// Returns the message with the place of the value at its end, unless it has that.
std::string with_place(const std::string& message, const OptionOrigin& origin);

// Returns " (from PET_NNODES)", for the end of an error; empty where the user sees the value in the command
// line.
std::string origin_text(const OptionOrigin& origin);

}  // namespace app
}  // namespace ddprun
