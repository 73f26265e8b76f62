package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/protolink-grpc/protolink-grpc/clients/go/agent"
)

// goodFit is how well the average day of a season fits that is worth travelling for.
const goodFit = 80

const maxNights = 30

// place is a destination: monthly averages, January first, and the range of degrees that people come for.
type place struct {
	name     string
	low, top float64
	highs    [12]float64 // degrees Celsius
	wetDays  [12]float64
}

// places have the climate of examples/vacation/places.py.
var places = []place{
	{"Bali", 24, 33, [12]float64{31, 31, 31, 32, 31, 31, 30, 30, 31, 32, 32, 31}, [12]float64{17, 15, 12, 8, 6, 4, 3, 2, 4, 6, 10, 15}},
	{"Barcelona", 20, 30, [12]float64{14, 15, 17, 19, 22, 26, 29, 29, 26, 22, 17, 15}, [12]float64{5, 5, 5, 6, 5, 4, 2, 4, 5, 6, 5, 5}},
	{"Cape Town", 20, 30, [12]float64{27, 28, 26, 24, 21, 19, 18, 19, 20, 22, 24, 26}, [12]float64{3, 3, 3, 6, 9, 10, 10, 9, 7, 5, 4, 3}},
	{"Dubrovnik", 20, 30, [12]float64{12, 13, 15, 18, 22, 26, 29, 29, 25, 21, 17, 14}, [12]float64{10, 9, 8, 8, 6, 5, 3, 3, 6, 8, 11, 11}},
	{"Innsbruck", 12, 26, [12]float64{4, 6, 12, 16, 21, 24, 26, 25, 21, 16, 9, 4}, [12]float64{10, 9, 11, 11, 13, 15, 15, 14, 11, 9, 10, 11}},
	{"Kyoto", 15, 28, [12]float64{9, 10, 14, 20, 25, 28, 32, 34, 29, 23, 17, 12}, [12]float64{7, 8, 11, 11, 11, 13, 13, 9, 11, 8, 7, 6}},
	{"Lisbon", 19, 29, [12]float64{15, 16, 19, 20, 23, 26, 28, 28, 27, 23, 18, 15}, [12]float64{11, 9, 7, 8, 5, 2, 1, 1, 4, 8, 10, 11}},
	{"Madeira", 19, 27, [12]float64{20, 20, 20, 21, 22, 24, 25, 26, 26, 25, 23, 21}, [12]float64{9, 8, 8, 6, 4, 2, 1, 1, 4, 7, 9, 10}},
	{"Marrakesh", 20, 32, [12]float64{18, 20, 23, 25, 29, 33, 37, 37, 32, 28, 23, 19}, [12]float64{5, 5, 5, 5, 3, 1, 0, 1, 2, 4, 5, 5}},
	{"Reykjavik", 8, 18, [12]float64{2, 3, 4, 7, 10, 13, 15, 14, 11, 7, 4, 3}, [12]float64{14, 13, 14, 12, 10, 10, 10, 12, 12, 14, 13, 14}},
	{"Santorini", 21, 30, [12]float64{14, 14, 16, 18, 23, 27, 29, 29, 26, 23, 19, 15}, [12]float64{10, 8, 7, 4, 2, 1, 0, 0, 1, 4, 7, 10}},
	{"Zanzibar", 25, 33, [12]float64{32, 33, 33, 31, 29, 29, 28, 29, 30, 31, 31, 32}, [12]float64{7, 6, 11, 18, 13, 5, 5, 6, 6, 8, 11, 9}},
}

func placeNamed(name string) (place, error) {
	var known []string
	for _, p := range places {
		if strings.EqualFold(p.name, strings.TrimSpace(name)) {
			return p, nil
		}
		known = append(known, p.name)
	}
	return place{}, &agent.Rejection{
		Code:       "unknown_destination",
		Message:    fmt.Sprintf("'%s' is not a known destination", name),
		Suggestion: "Choose one of " + strings.Join(known, ", ") + ".",
	}
}

// date is a day, in JSON as 2030-05-17.
type date struct{ time.Time }

const quotedDate = `"` + time.DateOnly + `"`

func (d *date) UnmarshalJSON(text []byte) (err error) {
	d.Time, err = time.Parse(quotedDate, string(text))
	return err
}

func (d date) MarshalJSON() ([]byte, error) { return []byte(d.Format(quotedDate)), nil }

type stay struct {
	Destination string `json:"destination"`
	Start       date   `json:"start"`
	Nights      int    `json:"nights"`
}

type day struct {
	Date date    `json:"date"`
	High float64 `json:"high"`
	Wet  bool    `json:"wet"`
}

// weather is what a stay is like; Fit says how well that suits the place, from 0 (stay at home) to 100.
type weather struct {
	Destination string `json:"destination"`
	Fit         int    `json:"fit"`
	Days        []day  `json:"days"`
}

func forecast(_ context.Context, asked stay) (weather, error) {
	p, err := placeNamed(asked.Destination)
	if err != nil {
		return weather{}, err
	}
	if asked.Start.IsZero() || asked.Nights < 1 || asked.Nights > maxNights {
		why := fmt.Sprintf("start is required, and nights must be from 1 to %d", maxNights)
		return weather{}, &agent.Rejection{Code: "invalid_arguments", Message: why}
	}
	told, fits := weather{Destination: p.name}, 0.0
	for offset := range asked.Nights {
		that := p.dayOf(asked.Start.AddDate(0, 0, offset))
		told.Days = append(told.Days, that)
		wet := 0.0
		if that.Wet {
			wet = 1
		}
		fits += p.fit(that.High, wet)
	}
	told.Fit = int(math.Round(fits / float64(asked.Nights)))
	return told, nil
}

type journey struct {
	Destination string `json:"destination"`
	Earliest    date   `json:"earliest"`
}

func bestStart(_ context.Context, asked journey) (date, error) {
	p, err := placeNamed(asked.Destination)
	if err != nil {
		return date{}, err
	}
	if asked.Earliest.IsZero() {
		return date{}, &agent.Rejection{Code: "invalid_arguments", Message: "earliest is required"}
	}
	year, month, _ := asked.Earliest.Date()
	var best date
	most := -1.0
	for offset := 1; offset <= 12; offset++ {
		first := date{time.Date(year, month+time.Month(offset), 1, 0, 0, 0, 0, time.UTC)}
		at := first.Month() - 1
		fit := p.fit(p.highs[at], p.wetDays[at]/30)
		if fit >= goodFit {
			return first, nil
		}
		if fit > most {
			best, most = first, fit
		}
	}
	return best, nil
}

// dayOf is the weather of a day: by chance, and always the same.
func (p place) dayOf(when time.Time) day {
	seed := fnv.New64a()
	fmt.Fprint(seed, p.name, when.Format(time.DateOnly))
	chance := rand.New(rand.NewPCG(seed.Sum64(), 0))
	month := when.Month() - 1
	high := p.highs[month] + 5*chance.Float64() - 2.5
	return day{date{when}, math.Round(10*high) / 10, chance.Float64() < p.wetDays[month]/30}
}

// fit is how well a day fits, 0 to 100: eight points off per degree outside the pleasant range, up to sixty for rain.
func (p place) fit(high, wet float64) float64 {
	outside := max(p.low-high, high-p.top, 0)
	return max(0, 100-8*outside-60*wet)
}
