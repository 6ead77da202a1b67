package main

import (
	"context"

	"github.com/compose-spec/compose-go/v2/cli"
)

// checkCompose loads the files as `docker compose config` does, without an engine: the same loader, the same schema.
func checkCompose(arguments []string, r *report) error {
	for _, file := range arguments {
		options, err := cli.NewProjectOptions(
			[]string{file}, cli.WithInterpolation(true), cli.WithResolvedPaths(true), cli.WithProfiles([]string{"*"}))
		if err != nil {
			return err
		}
		project, err := options.LoadProject(context.Background())
		if err != nil {
			r.found(file, "%v", err)
			continue
		}
		content, err := project.MarshalJSON()
		if err != nil {
			return err
		}
		if r.Files == nil {
			r.Files = map[string]string{}
		}
		r.Files[file] = string(content)
		r.Checked["service"] += len(project.Services)
	}
	return nil
}
